import type { Route } from './lib/routes';
import type { Page, Status } from './views/page';

/// A page's environment: its root element, the status display, and `say`, which shows a notice.
export interface Place {
  root: HTMLElement;
  status: Status;
  say: (text: string) => void;
}

/// Each page is a separate file, fetched on first use or prefetched when idle.
const FILES = {
  run: () => import('./views/run_page'),
  sections: () => import('./views/run_sections'),
  compare: () => import('./views/compare/compare_page'),
  sweep: () => import('./views/sweep/sweep_page'),
  submit: () => import('./views/runs/submit'),
  nodes: () => import('./views/nodes'),
  alerts: () => import('./views/alerts'),
  tokens: () => import('./views/tokens'),
  audit: () => import('./views/audit'),
  runs: () => import('./views/runs/run_list'),
  unknown: () => import('./views/not_found'),
  login: () => import('./views/login'),
};

/// Fetches the file of the route's page and returns a function that builds the page.
export async function builderOf(route: Route, { root, status, say }: Place): Promise<() => Page> {
  switch (route.page) {
    case 'run': {
      const { RunPage } = await FILES.run();
      return () => new RunPage(root, route.id, route.view, status);
    }
    case 'compare': {
      const { ComparePage } = await FILES.compare();
      return () => new ComparePage(root, route.query, status);
    }
    case 'sweep': {
      const { SweepPage } = await FILES.sweep();
      return () => new SweepPage(root, route.name, route.query, status);
    }
    case 'submit': {
      const { SubmitPage } = await FILES.submit();
      return () => new SubmitPage(root, route.query, status);
    }
    case 'nodes': {
      const { NodesPage } = await FILES.nodes();
      return () => new NodesPage(root, status);
    }
    case 'alerts': {
      const { AlertsPage } = await FILES.alerts();
      return () => new AlertsPage(root, status, say);
    }
    case 'tokens': {
      const { TokensPage } = await FILES.tokens();
      return () => new TokensPage(root, status, say);
    }
    case 'audit': {
      const { AuditPage } = await FILES.audit();
      return () => new AuditPage(root, route.query, status);
    }
    case 'runs': {
      const { RunList } = await FILES.runs();
      return () => new RunList(root, route.query, status, say);
    }
    case 'unknown': {
      const { NotFoundPage } = await FILES.unknown();
      return () => new NotFoundPage(root, route.path, status);
    }
  }
}

export const loginPage = (): ReturnType<typeof FILES.login> => FILES.login();

/// Prefetches all pages, so that they open even while the server does not answer.
export async function fetchAllPages(): Promise<void> {
  for (const file of Object.values(FILES)) await file().catch(() => undefined);
}
