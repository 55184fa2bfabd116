// Reads lines with tags and their translations, {"form", "source", "text"} a line, as a browser does: each translation is
// well-formed, has the elements of its source with their attributes and its comments, and no tag inside a word. Prints what
// is not so, then how many lines there were.
//
//   node markup_test.mjs FILE
import { readFileSync } from 'node:fs';

import { JSDOM } from 'jsdom';

const parser = new new JSDOM('').window.DOMParser();

/** The root of a line, read strictly. */
function strict_root(line) {
  const parsed = parser.parseFromString(`<root>${line}</root>`, 'application/xml');
  if (parsed.querySelector('parsererror')) throw new Error('not well-formed');
  return parsed.documentElement;
}

/** The tags of a tree, sorted; of a comment its text. */
function tags_of(root) {
  const tags = Array.from(root.querySelectorAll('*'), (element) =>
    JSON.stringify([element.localName, ...Array.from(element.attributes, ({ name, value }) => [name, value])]),
  );
  const visit = (node) => {
    if (node.nodeType === 8) tags.push(`<!--${node.data}-->`);
    node.childNodes.forEach(visit);
  };
  visit(root);
  return tags.sort().join('\n');
}

/** Runs of letters and digits, where tags divide them and where they do not. Placeholders may stand between words. */
function words_of(line) {
  const text = line.replace(/<ph .*?<\/ph>/g, ' ').replace(/<!--.*?-->|<[^>]*?\/>|<(\w+)( [^>]*)?><\/\1>/g, ' ');
  const runs = (replacement) =>
    text
      .replace(/<(?:"[^"]*"|'[^']*'|[^>"'])*>/g, replacement)
      .replace(/&\w+;|&#\d+;/g, ' ')
      .match(/[\p{L}\p{N}]+/gu) ?? [];
  return [runs(''), runs(' ')].map((words) => words.join(' '));
}

let faults = 0;
const pairs = readFileSync(process.argv[2], 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line));
for (const { form, source, text } of pairs) {
  try {
    const roots = [source, text].map(strict_root);
    if (tags_of(roots[0]) !== tags_of(roots[1])) throw new Error('other tags');
    const [joined, divided] = words_of(text);
    if (joined !== divided) throw new Error('a tag inside a word');
    if (form === 'html') {
      const [before, after] = [source, text].map((line) => parser.parseFromString(`<body>|${line}`, 'text/html').body);
      if (tags_of(before) !== tags_of(after)) throw new Error('other tags as HTML');
      if (after.textContent.slice(1).replace(/\s+/g, '') !== roots[1].textContent.replace(/\s+/g, ''))
        throw new Error('other text');
    }
  } catch (error) {
    console.log(`${error.message}: ${source}\n  ${text}`);
    ++faults;
  }
}
console.log(JSON.stringify({ lines: pairs.length, faults }));
process.exitCode = faults > 0 ? 1 : 0;
