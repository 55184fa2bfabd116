// The TypeScript types of the API, generated from server/api/openapi.yaml into server/dashboard/src/api/schema.d.ts.
//
//   node types.mjs           writes the file
//   node types.mjs --check   exits 1 if the file is not what would be written
import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const contract = new URL('../../server/api/openapi.yaml', import.meta.url);
const target = new URL('../../server/dashboard/src/api/schema.d.ts', import.meta.url);

const header = '// Generated from server/api/openapi.yaml by "npm run types" in tests/contract. Do not edit.\n\n';
const text = header + astToString(await openapiTS(contract, { alphabetize: false }));

if (process.argv.includes('--check')) {
  const found = await readFile(target, 'utf8').catch(() => '');
  if (found !== text) {
    console.error(`${target.pathname} is not what openapi.yaml says: run "npm run types" in tests/contract and commit it`);
    process.exit(1);
  }
  console.log('schema.d.ts equals what openapi.yaml says');
} else {
  await writeFile(target, text);
}
