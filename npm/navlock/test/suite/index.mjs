// All tests, in the order of the rules.

import './queue.mjs';
import './scale.mjs';
import './callback.mjs';
import './result.mjs';
import './steal.mjs';
import './abort.mjs';
import './abort-moments.mjs';
import './checks.mjs';
import './conversions.mjs';
import './interfaces.mjs';
import './names.mjs';
import './death.mjs';
import './lifetime.mjs';
import './snapshot.mjs';
import './isolation.mjs';

export { tests } from '../kit/test.mjs';
