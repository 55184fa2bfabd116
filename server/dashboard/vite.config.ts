import { createHash } from 'node:crypto';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/// Leaves out of uPlot the ways to draw a line that no chart here uses: a tenth of it, since it hangs them all on one object.
function onlyLinearPaths(): Plugin {
  const unused = /^\s*\(paths\.(stepped|bars|spline) *= \w+\);$/gm;
  return {
    name: 'only-linear-paths',
    transform(code, id) {
      if (!id.endsWith('uPlot.esm.js')) return null;
      if (code.match(unused)?.length !== 3) this.error('uPlot keeps its paths elsewhere now: see vite.config.ts');
      return { code: code.replace(unused, ''), map: null };
    },
  };
}

/// Leaves out of transformers.js the public server from which it would load ONNX Runtime, if this one were not named.
function noPublicServer(): Plugin {
  const address = 'https://cdn.jsdelivr.net/npm/onnxruntime-web@${ONNX_ENV.versions.web}/dist/';
  return {
    name: 'no-public-server',
    transform(code, id) {
      if (!id.endsWith('transformers.web.js')) return null;
      if (!code.includes(address))
        this.error('transformers.js loads ONNX Runtime from elsewhere now: see vite.config.ts');
      return { code: code.replace(address, './'), map: null };
    },
  };
}

/// Leaves ONNX Runtime's WebAssembly file out of dist/, as it has 14 MB and dist/ is in git. server/page/embed.cmake takes it from the
/// package of server/page/package.json, by the digest and the name that dist/onnx_runtime.sha256 has.
function withoutRuntime(): Plugin {
  return {
    name: 'without-runtime',
    generateBundle(_, bundle) {
      const files = Object.values(bundle).filter(({ fileName }) => fileName.endsWith('.wasm'));
      const [file] = files;
      if (files.length !== 1 || file?.type !== 'asset')
        return this.error(`expected one WebAssembly file, found ${files.length}: see vite.config.ts`);
      const digest = createHash('sha256').update(file.source).digest('hex');
      delete bundle[file.fileName];
      this.emitFile({ type: 'asset', fileName: 'onnx_runtime.sha256', source: `${digest}  ${file.fileName}\n` });
    },
  };
}

// The page is served from the root of the server; every asset but index.html carries a hash of its content in its name.
// BABELRING_SERVER=http://127.0.0.1:8080 npm run dev  develops against a running server.
export default defineConfig({
  base: './',
  plugins: [onlyLinearPaths(), withoutRuntime()],
  // The ONNX Runtime that computes by WebAssembly alone: half of the one with WebGPU that transformers.js takes. What it takes in Node
  // (onnxruntime-node and sharp, 200 MB) package.json replaces by a small package, as no browser imports it.
  resolve: { alias: { 'onnxruntime-web/webgpu': 'onnxruntime-web/wasm' } },
  worker: { format: 'es', plugins: () => [noPublicServer()] },
  build: {
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'], // those that know light-dark()
    outDir: 'dist',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Few files: the shell, what pages with charts share, and each page. Merged code also compresses better.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            {
              name: 'charts',
              priority: 1,
              test: /uplot|src\/(charts\/(chart|lines|plot)|data\/series_store|lib\/(axes|series)|views\/chart_grid)\b/,
            },
            {
              name: 'index',
              priority: 2,
              test: /src\/(main|lib\/(dom|format|routes|runs|work)|api\/|views\/(parts|site_header))\b/,
            },
            { name: 'lists', priority: 0, test: /src\/views\/list_page\b/ },
            { name: 'choice', priority: 0, test: /src\/(data\/choice|lib\/(config_tree|nearest))\b/ },
          ],
        },
      },
    },
  },
  server: {
    host: '127.0.0.1',
    proxy: { '/api': process.env['BABELRING_SERVER'] ?? 'http://127.0.0.1:8080' },
    fs: { allow: ['.', '../../tests/dashboard'] },
  },
  test: {
    dir: '../../tests/dashboard',
    include: ['**/*_test.ts'],
    globals: true,
    environment: 'node',
    testTimeout: 120_000, // for what hangs, not for a machine that is busy
  },
});
