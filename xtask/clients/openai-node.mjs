// OpenAI's library in Node.

import * as library from 'openai';
import { checks } from './openai.mjs';
import { count, given, idle, mark, run } from './world.mjs';

await run(checks(library, { url: given.url, token: given.token, world: { count, idle, mark } }));
