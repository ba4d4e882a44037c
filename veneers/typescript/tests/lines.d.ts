// Files of lines are texts; see `bundle.mjs`.
declare module "*.jsonl" {
  const text: string;
  export default text;
}
