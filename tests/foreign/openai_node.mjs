// OpenAI's own Node client: `node openai_node.mjs FOLDER MODEL FEATURE,FEATURE,... URL [URL ...]`, FOLDER with node_modules/openai in it.
//
// Prints a JSON list, for each URL an object of one result a feature: what the client hands to its caller.

import { createRequire } from 'node:module';

const [folder, model, features, ...urls] = process.argv.slice(2);
const OpenAI = createRequire(`${folder}/`)('openai');
const greedy = { model, temperature: 0 };

const question = [{ role: 'user', content: 'Name three things a lighthouse keeper does on a foggy night.' }];
const pet = [{ role: 'user', content: 'A cat called Tom of 3 years, as JSON.' }];
const weather = [{ role: 'user', content: 'What is the weather in Paris?' }];
const petFormat = {
  type: 'json_schema',
  json_schema: {
    name: 'pet',
    strict: true,
    schema: {
      type: 'object',
      properties: { name: { type: 'string', maxLength: 12 }, age: { type: 'integer', maximum: 99 } },
      required: ['name', 'age'],
      additionalProperties: false,
    },
  },
};
const tool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city.',
    strict: true,
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 16 } },
      required: ['city'],
      additionalProperties: false,
    },
  },
};
const forced = { type: 'function', function: { name: 'get_weather' } };
const call = { id: 'call_0', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Paris"}' } };

function must(condition, what) {
  if (!condition) throw new Error(what);
}

async function whole(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(chunk);
  return chunks;
}

const does = {
  models: async (client) => (await client.models.list()).data.map((one) => one.id),

  chat: (client) =>
    client.chat.completions.create({ ...greedy, messages: question, max_tokens: 12, logprobs: true, top_logprobs: 3 }),

  // Drawn with a seed: the one call that is not greedy.
  choices: (client) =>
    client.chat.completions.create({ model, temperature: 0.8, seed: 7, messages: question, max_tokens: 8, n: 2 }),

  stream: (client) =>
    whole(
      client.chat.completions.create({
        ...greedy,
        messages: question,
        max_tokens: 12,
        stream: true,
        stream_options: { include_usage: true },
        logprobs: true,
        top_logprobs: 2,
      }),
    ),

  // Only the first chunks of a stream are taken, then it is aborted.
  left: async (client) => {
    const stream = await client.chat.completions.create({ ...greedy, messages: question, max_tokens: 48, stream: true });
    const chunks = [];
    for await (const chunk of stream) {
      chunks.push(chunk);
      if (chunks.length === 3) break;
    }
    return chunks;
  },

  structured: async (client) => {
    const reply = await client.chat.completions.parse({
      ...greedy,
      messages: pet,
      max_tokens: 48,
      response_format: petFormat,
    });
    must('age' in JSON.parse(reply.choices[0].message.content), 'no pet came');
    return reply;
  },

  tools: async (client) => {
    const reply = await client.chat.completions.create({
      ...greedy,
      messages: weather,
      max_tokens: 64,
      tools: [tool],
      tool_choice: forced,
    });
    must(reply.choices[0].message.tool_calls[0].function.name === 'get_weather', 'no call came');
    return reply;
  },

  tools_stream: async (client) => {
    const chunks = await whole(
      client.chat.completions.create({
        ...greedy,
        messages: weather,
        max_tokens: 64,
        tools: [tool],
        tool_choice: forced,
        stream: true,
      }),
    );
    must(chunks.some((chunk) => chunk.choices[0]?.delta.tool_calls), 'no call came');
    return chunks;
  },

  // A conversation in which a call has been answered.
  tools_answered: (client) =>
    client.chat.completions.create({
      ...greedy,
      max_tokens: 12,
      messages: [
        ...weather,
        { role: 'assistant', content: '', tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_0', content: '18 °C, sunny' },
      ],
    }),

  completions: (client) =>
    client.completions.create({
      ...greedy,
      prompt: ['The capital of France is', 'Ice floats because'],
      max_tokens: 8,
      logprobs: 2,
    }),

  // Twice: this client asks for base64 by itself, then plain numbers.
  embeddings: async (client) => {
    const input = ['a cat', 'ein Haus, 日本語 🌞'];
    const replies = [
      await client.embeddings.create({ model, input }),
      await client.embeddings.create({ model, input, encoding_format: 'float' }),
    ];
    must(replies[0].data[1].embedding.length > 100, 'no embedding came');
    return replies;
  },

  responses: (client) =>
    client.responses.create({ ...greedy, input: 'Name one thing that floats.', max_output_tokens: 8 }),

  responses_stream: async (client) => {
    const events = await whole(
      client.responses.create({
        ...greedy,
        input: 'Name one thing that floats.',
        max_output_tokens: 8,
        stream: true,
      }),
    );
    must(/^response\.(completed|incomplete)$/.test(events.at(-1).type), 'the response did not end');
    return events;
  },

  // A bad request raises the client's own exception, with the engine's words in it.
  refused: async (client) => {
    try {
      await client.chat.completions.create({ ...greedy, messages: 'not a list' });
    } catch (error) {
      if (!(error instanceof OpenAI.BadRequestError)) throw error;
      return { status: error.status, body: error.error, type: error.headers.get('content-type') };
    }
    throw new Error('the engine took it');
  },

  // Four at once over one client's connections.
  together: async (client) => {
    const ask = (number) =>
      client.completions.create({ ...greedy, prompt: `${number} and ${number} make`, max_tokens: 6 });
    const replies = await Promise.all([0, 1, 2, 3].map(ask));
    return replies.map((reply) => reply.choices[0].text);
  },
};

const results = [];
for (const url of urls) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'canary-key', timeout: 120_000, maxRetries: 0 });
  const result = {};
  for (const name of features.split(',')) result[name] = await does[name](client);
  results.push(result);
}
console.log(JSON.stringify(results));
