// What an application does with the OpenAI client, against a running gateway:
//   node chat.mjs http://127.0.0.1:30000/v1 sim-model
// Prints one JSON object of what it saw; the test judges it.

import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0, timeout: 20000 });
const messages = [{ role: "user", content: "Hello" }];
const chat = client.chat.completions;

async function plain() {
  const answer = await chat.create({ model, messages });
  return { text: answer.choices[0].message.content, usage: answer.usage };
}

async function stream() {
  const seen = { text: "", chunks: 0, usage: null };
  const options = { include_usage: true };
  const events = { model, messages, stream: true, stream_options: options };
  for await (const chunk of await chat.create(events)) {
    seen.chunks += 1;
    seen.text += chunk.choices[0]?.delta?.content ?? "";
    seen.usage = chunk.usage ?? seen.usage;
  }
  return seen;
}

const parameters = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
};
const tools = [{ type: "function", function: { name: "weather", parameters } }];

async function toolCall() {
  const named = { type: "function", function: { name: "weather" } };
  const answer = await chat.create({ model, messages, tools, tool_choice: named });
  const [call] = answer.choices[0].message.tool_calls;
  const result = { role: "tool", tool_call_id: call.id, content: "sunny" };
  const history = [...messages, answer.choices[0].message, result];
  const next = await chat.create({ model, messages: history, tools });
  return {
    name: call.function.name,
    arguments: JSON.parse(call.function.arguments),
    reason: answer.choices[0].finish_reason,
    next: next.choices[0].finish_reason,
  };
}

async function toolStream() {
  const options = { include_usage: true };
  const asked = { model, messages, tools, tool_choice: "required" };
  const events = chat.stream({ ...asked, stream_options: options });
  const answer = await events.finalChatCompletion();
  const [call] = answer.choices[0].message.tool_calls;
  return { arguments: JSON.parse(call.function.arguments), usage: answer.usage };
}

async function structured() {
  const json_schema = { name: "place", schema: parameters, strict: true };
  const response_format = { type: "json_schema", json_schema };
  const answer = await chat.create({ model, messages, response_format });
  return JSON.parse(answer.choices[0].message.content);
}

async function logprobs() {
  const asked = { model, messages, logprobs: true, top_logprobs: 2, max_tokens: 7 };
  const [choice] = (await chat.create(asked)).choices;
  const told = [];
  for await (const chunk of await chat.create({ ...asked, stream: true })) {
    told.push(...(chunk.choices[0]?.logprobs?.content ?? []));
  }
  return { text: choice.message.content, whole: choice.logprobs.content, told };
}

async function completion() {
  const answer = await client.completions.create({ model, prompt: "Hi", max_tokens: 4 });
  return { text: answer.choices[0].text, tokens: answer.usage.completion_tokens };
}

async function embeddings() {
  const answer = await client.embeddings.create({ model, input: ["one", "two"] });
  return answer.data.map((item) => item.embedding.length);
}

async function models() {
  const ids = [];
  for await (const one of client.models.list()) ids.push(one.id);
  return ids;
}

async function refusal(body) {
  try {
    await chat.create(body);
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, code: error.code };
  }
}

async function abandoned() {
  const events = { model, messages, stream: true, max_tokens: 5000, ignore_eos: true };
  for await (const chunk of await chat.create(events)) {
    if (chunk.choices[0]?.delta?.content) break;
  }
  return true;
}

console.log(
  JSON.stringify({
    plain: await plain(),
    stream: await stream(),
    toolCall: await toolCall(),
    toolStream: await toolStream(),
    structured: await structured(),
    logprobs: await logprobs(),
    completion: await completion(),
    embeddings: await embeddings(),
    models: await models(),
    unknownModel: await refusal({ model: "no-such-model", messages }),
    noMessages: await refusal({ model, messages: [] }),
    wrongType: await refusal({ model: 5, messages }),
    abandoned: await abandoned(),
  }),
);
