-- A buffered chat completion of about 450 bytes for wrk; figures as one JSON line.

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model":"sim","messages":[' ..
  '{"role":"system","content":"You are a helpful assistant."},' ..
  '{"role":"user","content":"' ..
  string.rep("What is the capital of France? ", 10) .. '"}],' ..
  '"max_tokens":100,"temperature":0.7}'

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"phase":"end","requests":%d,"seconds":%.3f,"errors":%d,' ..
    '"latency_p50_us":%d,"latency_p99_us":%d}\n',
    summary.requests, summary.duration / 1e6,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
