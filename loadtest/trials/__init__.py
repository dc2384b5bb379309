"""The trials, one module each. A new one is added to `TRIALS`."""

from loadtest.trials.admission import Admission
from loadtest.trials.affinity import Affinity
from loadtest.trials.chaos import Chaos
from loadtest.trials.http2 import Http2
from loadtest.trials.realtime import Realtime
from loadtest.trials.resets import Resets
from loadtest.trials.slow_readers import SlowReaders
from loadtest.trials.trial import Trial
from loadtest.trials.uploads import Uploads

TRIALS: tuple[Trial, ...] = (
    Http2(),
    Realtime(),
    Uploads(),
    SlowReaders(),
    Resets(),
    Admission(),
    Chaos(),
    Affinity(),
)
