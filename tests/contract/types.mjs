// Writes the TypeScript types of the API, generated from server/api/openapi.yaml, to server/dashboard/src/api/schema.d.ts, which git
// ignores. `npm run types` in server/dashboard calls it.
import { writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const contract = new URL('../../server/api/openapi.yaml', import.meta.url);
const target = new URL('../../server/dashboard/src/api/schema.d.ts', import.meta.url);

await writeFile(
  target,
  '// Generated from server/api/openapi.yaml.\n\n' + astToString(await openapiTS(contract, { alphabetize: false })),
);
