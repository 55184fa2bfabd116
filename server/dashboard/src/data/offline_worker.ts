import { env, pipeline, type TranslationPipeline } from '@huggingface/transformers';

/// A request of the page to this worker, one at a time: to load an export of Hugging Face's format, whose files are at `files`, with
/// ONNX Runtime's WebAssembly file from the address `runtime`, or to translate a sentence with it.
export type OfflineRequest = Loading | { text: string };
type Loading = { files: string; headers: Record<string, string>; runtime: string };
/// Its answer: bytes fetched so far, any number of times, then that it is ready, a translation or why it failed.
export type OfflineAnswer = { bytes: number } | { ready: true } | { text: string; ms: number } | { failed: string };

const MODEL = 'model';
const say = (answer: OfflineAnswer): void => (self as unknown as Worker).postMessage(answer);

let translate: TranslationPipeline | undefined;

/// Fetches one file after the other, as the server bounds the downloads of a token. Nothing comes from elsewhere.
function fetchFrom(files: string, headers: Record<string, string>): typeof fetch {
  let bytes = 0;
  let before: Promise<unknown> = Promise.resolve();
  const get = async (path: string): Promise<Response> => {
    const response = await fetch(`${files}/${path}`, { headers });
    const body = await response.arrayBuffer();
    if (response.ok) say({ bytes: (bytes += body.byteLength) });
    else if (response.status !== 404) throw new Error(`the server answered ${response.status} for ${path}`);
    return new Response(body, { status: response.status, headers: response.headers });
  };
  return (input) => {
    const path = String(input).split(`/${MODEL}/`).at(-1)!;
    const mine = before.then(() => get(path));
    before = mine.catch(() => undefined);
    return mine;
  };
}

async function load({ files, headers, runtime }: Loading): Promise<void> {
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = '/';
  env.useBrowserCache = false; // the browser keeps the files as their entity tags allow
  env.useWasmCache = false;
  env.fetch = fetchFrom(files, headers);
  Object.assign(env.backends.onnx.wasm!, { wasmPaths: { wasm: runtime }, numThreads: 1 }); // instead of a public server
  translate = await pipeline('translation', MODEL, { dtype: 'fp32', device: 'wasm' });
}

async function answer(request: OfflineRequest): Promise<void> {
  if ('files' in request) {
    await load(request);
    return say({ ready: true });
  }
  const began = performance.now();
  const { input_ids: ids } = translate!.tokenizer(request.text) as { input_ids: { size: number } };
  const options = { max_new_tokens: 2 * (ids.size - 1) + 10 }; // subwords without </s>, as `nmt translate` bounds it
  const [found] = (await translate!(request.text, options)) as { translation_text: string }[];
  say({ text: found!.translation_text, ms: performance.now() - began });
}

self.onmessage = ({ data }: MessageEvent<OfflineRequest>) => {
  answer(data).catch((error: unknown) => say({ failed: error instanceof Error ? error.message : String(error) }));
};
