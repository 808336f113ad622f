/** The calls of tools that wait for somebody to allow them, page by page. */
import type { ApprovalList, ApprovalQuery, ApprovalView } from '../model/http/runs.ts';

export type { ApprovalList, ApprovalQuery };

export function approvalPath(query: ApprovalQuery): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) asked.set(name, String(value));
  return `/v2/approvals?${asked}`;
}

export async function allApprovals(
  pageOf: (query: ApprovalQuery) => Promise<ApprovalList>,
): Promise<readonly ApprovalView[]> {
  const all: ApprovalView[] = [];
  let cursor: string | undefined;
  do {
    const page = await pageOf(cursor === undefined ? {} : { cursor });
    all.push(...page.approvals);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return all;
}
