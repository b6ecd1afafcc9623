// A setup file of one's own that takes `navlock/test` along.

import 'navlock/test';
import { locks } from 'navlock';

export const ours: typeof navigator.locks = locks;
