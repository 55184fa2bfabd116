// Holds an exchange against the contract (openapi.json, as the server gives it): which operation it is, which answers that has,
// and whether a body fits its schema.
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const METHODS = ['get', 'put', 'post', 'patch', 'delete'];

const escapePointer = (part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
const pointer = (...parts) => `contract#/${parts.map(escapePointer).join('/')}`;

/// Literal segments count more than parameters, so that /runs/{run}/metrics.csv is not taken for another path.
function matcher(template) {
  const segments = template
    .split('/')
    .map((part) => (part.startsWith('{') ? '[^/]+' : part.replace(/[.*+?^$()|[\]\\]/g, '\\$&')));
  return { template, pattern: new RegExp(`^${segments.join('/')}$`), parameters: (template.match(/\{/g) ?? []).length };
}

export class Contract {
  constructor(document) {
    this.document = document;
    this.ajv = new Ajv2020({ strictSchema: false, strictTypes: false, allErrors: true, validateFormats: true });
    addFormats(this.ajv);
    this.ajv.addFormat('binary', true);
    this.ajv.addSchema({ ...this.document, $id: 'contract' });
    this.paths = Object.keys(this.document.paths)
      .map(matcher)
      .sort((a, b) => a.parameters - b.parameters);
    this.validators = new Map();
  }

  /// Every operation as {template, method, operation}.
  operations() {
    return Object.entries(this.document.paths).flatMap(([template, item]) =>
      METHODS.filter((method) => item[method]).map((method) => ({ template, method, operation: item[method] })),
    );
  }

  /// The operation that a request is for, or null where the contract has none.
  find(method, target) {
    const path = target.split(/[?#]/)[0];
    const wanted = method === 'HEAD' ? 'get' : method.toLowerCase();
    for (const { template, pattern } of this.paths) {
      const operation = this.document.paths[template][wanted];
      if (operation && pattern.test(path)) return { template, method: wanted, operation };
    }
    return null;
  }

  /// The described answer of that status, with where it stands, or null.
  answerOf({ template, method, operation }, status) {
    const described = operation.responses[status];
    if (!described) return null;
    if (!described.$ref) return { described, base: ['paths', template, method, 'responses', String(status)] };
    const parts = described.$ref.slice(2).split('/');
    return { described: parts.reduce((node, part) => node[part], this.document), base: parts };
  }

  /// The enums that have an entry twice, as texts that say where.
  repeatedEntries() {
    const found = [];
    const walk = (node, place) => {
      if (node === null || typeof node !== 'object') return;
      if (Array.isArray(node.enum) && new Set(node.enum).size < node.enum.length)
        found.push(`${place}: ${JSON.stringify(node.enum)}`);
      for (const [name, part] of Object.entries(node)) walk(part, `${place}/${name}`);
    };
    walk(this.document, '#');
    return found;
  }

  /// The faults of a JSON body by a described answer's schema: a list of texts.
  faults(base, mediaType, body) {
    return this.faultsBy(pointer(...base, 'content', mediaType, 'schema'), body);
  }

  /// The same for a problem that is no operation's.
  problemFaults(body) {
    return this.faultsBy(pointer('components', 'schemas', 'Problem'), body);
  }

  faultsBy(reference, body) {
    let validate = this.validators.get(reference);
    if (!validate) {
      validate = this.ajv.compile({ $ref: reference });
      this.validators.set(reference, validate);
    }
    if (validate(body)) return [];
    return validate.errors.map(
      (error) => `${error.instancePath || '/'} ${error.message} ${JSON.stringify(error.params)}`,
    );
  }
}
