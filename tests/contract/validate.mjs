// Holds what the server answered in the tests against the contract that it served there: GET /api/v1/openapi.json is one of the
// exchanges.
//
//   BABELRING_EXCHANGES=FILE build/dev/bin/test_server      the tests' client appends each exchange to FILE
//   node validate.mjs FILE [JUNIT.xml]
//
// Every answer, errors too, must be of a described status and media type, every JSON body must fit its schema, every single GET
// that may be kept has an ETag, and every operation with each of its documented success answers must have been seen. An enum has
// no entry twice.
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Contract } from './contract.mjs';

const [file, junit] = process.argv.slice(2);
if (!file) {
  console.error('usage: node validate.mjs EXCHANGES [JUNIT.xml]');
  process.exit(2);
}
const MAX_SHOWN = 5;

async function* exchanges() {
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    if (line) yield JSON.parse(line);
  }
}

/// The contract among the exchanges. Exits where it is not there, or not always the same: the file is of several builds.
async function servedContract() {
  const texts = new Set();
  for await (const { method, path, status, body } of exchanges()) {
    if (method === 'GET' && path === '/api/v1/openapi.json' && status === 200 && body !== undefined) texts.add(body);
  }
  if (texts.size === 1) return new Contract(JSON.parse([...texts][0]));
  console.error(`${file}: found ${texts.size} different answers to GET /api/v1/openapi.json, expected 1`);
  process.exit(1);
}

const contract = await servedContract();

const OTHER_PATHS = 'other paths';
const faults = new Map(); // operation: faults of its answers
const seen = new Set(); // "get /path 200"
let checked = 0;
let foreign = 0;

function complain(operation, text) {
  const list = faults.get(operation) ?? [];
  faults.set(operation, list);
  list.push(text);
}

function check(exchange) {
  const found = contract.find(exchange.method, exchange.path);
  if (!found) {
    // Paths and methods that are refused because they are none of ours, and the page itself.
    foreign += 1;
    if (exchange.type !== 'application/problem+json' || exchange.body === undefined) return;
    for (const fault of contract.problemFaults(JSON.parse(exchange.body)))
      complain(OTHER_PATHS, `${exchange.method} ${exchange.path}: ${fault}`);
    return;
  }
  const name = `${found.method} ${found.template}`;
  const where = `${exchange.method} ${exchange.path} ${exchange.status}`;
  seen.add(`${name} ${exchange.status}`);
  checked += 1;
  if (exchange.status === 304 && found.method === 'get') return; // any GET may say so
  const answer = contract.answerOf(found, exchange.status);
  if (!answer) return complain(name, `${where}: status ${exchange.status} is not described`);
  if (exchange.method === 'HEAD' || exchange.status === 204) return;
  const type = (exchange.type ?? '').split(';')[0];
  const content = answer.described.content;
  if (!content)
    return exchange.length > 0 ? complain(name, `${where}: has a ${type} body, none is described`) : undefined;
  if (!content[type]) return complain(name, `${where}: ${type || 'no media type'} is not described`);
  const json = type === 'application/json' || type === 'application/problem+json';
  if (
    json &&
    exchange.status === 200 &&
    found.method === 'get' &&
    !exchange.etag &&
    !exchange.cache?.includes('no-store')
  ) {
    complain(name, `${where}: has no ETag`);
  }
  if (!json || exchange.body === undefined) return;
  let body;
  try {
    body = JSON.parse(exchange.body);
  } catch (error) {
    return complain(name, `${where}: ${error.message}`);
  }
  for (const fault of contract.faults(answer.base, type, body)) complain(name, `${where}: ${fault}`);
}

for await (const exchange of exchanges()) check(exchange);
for (const place of contract.repeatedEntries())
  complain('get /api/v1/openapi.json', `an enum has an entry twice, ${place}`);
for (const { template, method, operation } of contract.operations()) {
  for (const status of Object.keys(operation.responses)) {
    const name = `${method} ${template}`;
    if (/^2/.test(status) && !seen.has(`${name} ${status}`)) complain(name, `${status} was answered in no test`);
  }
}

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[^\x20-\x7e\n]/g, '?');
const operations = [...contract.operations().map(({ template, method }) => `${method} ${template}`), OTHER_PATHS];
if (junit) {
  const cases = operations.map((name) => {
    const list = faults.get(name);
    const failure = list ? `<failure message="${escape(list[0])}"/>` : '';
    return `<testcase classname="contract" name="${escape(name)}">${failure}</testcase>`;
  });
  const count = operations.filter((name) => faults.has(name)).length;
  await writeFile(
    junit,
    `<testsuites><testsuite name="contract" tests="${operations.length}" failures="${count}">\n` +
      `${cases.join('\n')}\n</testsuite></testsuites>\n`,
  );
}
for (const [name, list] of faults) {
  console.log(`${name}: ${list.length} faults`);
  for (const text of list.slice(0, MAX_SHOWN)) console.log(`  ${text}`);
}
console.log(
  `${checked} answers of ${operations.length} operations held against openapi.json, ${foreign} of other paths left out; ` +
    `${faults.size} operations with faults`,
);
process.exit(faults.size > 0 || checked === 0 ? 1 : 0);
