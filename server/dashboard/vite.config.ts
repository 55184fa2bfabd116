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
    cssCodeSplit: false,
    // Few files: the shell, what pages with charts share, and each page. Merged code also compresses better.
    rolldownOptions: {
      output: { codeSplitting: { groups: [
        { name: 'charts', priority: 1, test: /uplot|src\/(charts\/(?!heat_strip|picture)|data\/series_store|lib\/(ema|x_axis|series)|views\/run_toolbar)/ },
        { name: 'index', priority: 2, test: /src\/(main|lib\/(config_tree|dom|format|freshness|keys|routes|run_view|theme_choice|view_state)|api|views\/(tables|run_header|site_header|session_badge|notify_button)|lib\/slices)\b/ },
      ] } },
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
  },
});
