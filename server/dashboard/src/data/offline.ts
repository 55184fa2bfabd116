import runtimeFile from 'onnxruntime-web/ort-wasm-simd-threaded.wasm?url';
import { authorization } from '../api/session';
import type { OfflineAnswer, OfflineRequest } from './offline_worker';

export type OfflineTranslation = { text: string; ms: number };

const runtimeAddress = (): string => new URL(runtimeFile, document.baseURI).href;

/// Throws if the server lacks ONNX Runtime's WebAssembly file, which comes from npm when the server is built.
export async function requireRuntime(): Promise<void> {
  const answer = await fetch(runtimeAddress(), { method: 'HEAD' }).catch(() => null); // who is away is said by the next request
  if (answer?.status !== 404) return;
  throw new Error(
    'this server was built without ONNX Runtime, which translates in the browser: where it is built, install npm, run "npm ci" in ' +
      'server/page and build it again',
  );
}

/// An exported model that translates in this browser: in a worker, whose code and memory come and go with it. One call at a time.
export class OfflineModel {
  private readonly worker = new Worker(new URL('./offline_worker.ts', import.meta.url), { type: 'module' });
  private heard: (answer: OfflineAnswer) => void = () => undefined;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<OfflineAnswer>) => this.heard(data);
    this.worker.onerror = ({ message }) => this.heard({ failed: message || 'the code for it was not loaded' });
  }

  /// Fetches the files below the address `files`; `fetched` hears how many bytes are here. Throws if that fails.
  async load(files: string, fetched: (bytes: number) => void): Promise<void> {
    await this.ask(
      { files: new URL(files, document.baseURI).href, headers: authorization(), runtime: runtimeAddress() },
      fetched,
    );
  }

  /// Translates one line greedily. Throws if that fails.
  async translate(text: string): Promise<OfflineTranslation> {
    const answer = await this.ask({ text });
    return answer as OfflineTranslation;
  }

  /// Ends the worker. Calls that wait are never answered.
  close(): void {
    this.worker.terminate();
  }

  private ask(request: OfflineRequest, fetched: (bytes: number) => void = () => undefined): Promise<OfflineAnswer> {
    return new Promise((resolve, reject) => {
      this.heard = (answer) => {
        if ('bytes' in answer) fetched(answer.bytes);
        else if ('failed' in answer) reject(new Error(answer.failed));
        else resolve(answer);
      };
      this.worker.postMessage(request);
    });
  }
}
