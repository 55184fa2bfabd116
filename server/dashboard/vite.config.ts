import { defineConfig } from 'vitest/config';

// The page is served from the root of the server; every asset but index.html carries a hash of its content in its name.
// BABELRING_SERVER=http://127.0.0.1:8080 npm run dev  develops against a running server.
export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    outDir: 'dist',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
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
  },
});
