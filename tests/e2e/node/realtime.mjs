// An application that uses ws as browsers use WebSocket. Prints what it saw as JSON.
import WebSocket from "ws";

const url = process.argv[2];
const key = "openai-insecure-api-key.sk-worker";

function open(target = url) {
  return new WebSocket(target, ["realtime", key]);
}

function closed(message) {
  return new Promise((resolve) => {
    const socket = open();
    socket.on("open", () => socket.send(message));
    socket.on("error", () => {});
    socket.on("close", (code, reason) => resolve([code, reason.toString()]));
  });
}

const seen = { echoed: [] };
await new Promise((resolve) => {
  const socket = open();
  socket.on("open", () => {
    seen.protocol = socket.protocol;
    socket.send("hello");
    socket.send(Buffer.from([1, 2, 3]));
    socket.ping("ping");
  });
  socket.on("message", (data, isBinary) => {
    seen.echoed.push(isBinary ? `binary:${data.length}` : data.toString());
    if (seen.echoed.length === 2 && seen.pong) socket.close(1000);
  });
  socket.on("pong", (data) => {
    seen.pong = data.toString();
    if (seen.echoed.length === 2) socket.close(1000);
  });
  socket.on("close", resolve);
});
seen.close = await closed("close me");
seen.lost = await closed("die");
seen.refused = await new Promise((resolve) => {
  const socket = open(url.replace("rt/model", "nobody"));
  socket.on("unexpected-response", (request, response) => {
    resolve(response.statusCode);
    socket.terminate();
  });
  socket.on("error", () => {});
});
console.log(JSON.stringify(seen));
