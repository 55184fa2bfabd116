// What server/api/openapi.yaml says of an exchange: which operation it is, which answers that has, and whether a body
// fits its schema.
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';

const METHODS = ['get', 'put', 'post', 'patch', 'delete'];

const escapePointer = (part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
const pointer = (...parts) => `contract#/${parts.map(escapePointer).join('/')}`;

/// Literal segments count more than parameters, so that /runs/{run}/metrics.csv is not taken for another path.
function matcher(template) {
  const segments = template.split('/').map((part) => (part.startsWith('{') ? '[^/]+' : part.replace(/[.*+?^$()|[\]\\]/g, '\\$&')));
  return { template, pattern: new RegExp(`^${segments.join('/')}$`), parameters: (template.match(/\{/g) ?? []).length };
}

export class Contract {
  constructor(yamlText) {
    this.document = parse(yamlText);
    this.ajv = new Ajv2020({ strictSchema: false, strictTypes: false, allErrors: true, validateFormats: true });
    addFormats(this.ajv);
    this.ajv.addFormat('binary', true);
    this.ajv.addSchema({ ...this.document, $id: 'contract' });
    this.paths = Object.keys(this.document.paths).map(matcher).sort((a, b) => a.parameters - b.parameters);
    this.validators = new Map();
  }

  /// Every operation as {template, method, operation}.
  operations() {
    return Object.entries(this.document.paths).flatMap(([template, item]) =>
      METHODS.filter((method) => item[method]).map((method) => ({ template, method, operation: item[method] })));
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
    const key = operation.responses[status] ? String(status) : operation.responses.default && status >= 400 ? 'default' : null;
    // What refuses a request before it reaches its operation (framing, Host, rates) may do so anywhere.
    if (!key && status >= 400) return { described: this.document.components.responses.Problem, base: ['components', 'responses', 'Problem'] };
    if (!key) return null;
    const described = operation.responses[key];
    if (!described.$ref) return { described, base: ['paths', template, method, 'responses', key] };
    const parts = described.$ref.slice(2).split('/');
    return { described: parts.reduce((node, part) => node[part], this.document), base: parts };
  }

  /// What is wrong with a JSON body held against a described answer's schema: a list of texts.
  faults(base, mediaType, body) {
    const reference = pointer(...base, 'content', mediaType, 'schema');
    let validate = this.validators.get(reference);
    if (!validate) {
      validate = this.ajv.compile({ $ref: reference });
      this.validators.set(reference, validate);
    }
    if (validate(body)) return [];
    return validate.errors.map((error) => `${error.instancePath || '/'} ${error.message} ${JSON.stringify(error.params)}`);
  }
}
