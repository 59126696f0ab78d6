// Static files in dist/, each with its compressed form beside it: server/build.rs packs both into
// the program. The names of scripts and styles have a digest, so browsers keep them for ever.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

// Compressed, all files together.
const LIMIT = 150_000;

function below(directory: string): string[] {
  return readdirSync(directory).flatMap((name) => {
    const path = join(directory, name);
    return statSync(path).isDirectory() ? below(path) : [path];
  });
}

function compressed(directory: string): Plugin {
  const kept = join(directory, '.gitignore');
  return {
    name: 'compressed',
    apply: 'build',
    // All but the file that keeps the directory in the repository.
    buildStart() {
      for (const path of below(directory)) if (path !== kept) rmSync(path);
    },
    closeBundle() {
      let sum = 0;
      for (const path of below(directory)) {
        if (path === kept || path.endsWith('.gz')) continue;
        const bytes = gzipSync(readFileSync(path), { level: 9 });
        writeFileSync(`${path}.gz`, bytes);
        sum += bytes.length;
      }
      console.log(`${sum} bytes compressed, of ${LIMIT}`);
      if (sum >= LIMIT) throw new Error(`the dashboard is too large: ${sum} bytes compressed`);
    },
  };
}

export default defineConfig({
  plugins: [svelte(), compressed(join(import.meta.dirname, 'dist'))],
  build: {
    emptyOutDir: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
});
