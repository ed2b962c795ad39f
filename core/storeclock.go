package core

// storeClock watches whether the store's clock runs in step with this node's
// own: the age of a lease by the store's stamps counts only while it has done
// so for TTL + slack (rule "age").
//
// Each own lease write brings a sample: the store's Date, and the interval of
// this node's clock in which the store made it. A stamp is coarse by rounding
// and may come from a cache that is refreshed as often, so a sample bounds the
// difference between the two clocks only to within both. Samples contradict
// each other when no difference fits both.
//
// What this prevents: the store's clock is set forward by an hour, and the lease
// that a live node wrote a second ago looks an hour old. Let the clock have run
// in step since an instant at least TTL + slack before the reading began. A lease
// written after that instant has two stamps of one steady clock, and their
// difference is its age. A lease written before it may have any Modified, but when
// the reading began it was older than TTL + slack by this node's own clock, so its
// holder was dead by then. (Counted to the end of the reading it would prove
// nothing: the holder may have renewed it since the store looked at it.)
//
// Readings of other leases are compared with the samples but never become one:
// they come when somebody asks, not in a steady rhythm, and a run must not grow
// from the very reading that it is to judge.
//
// What one sample cannot see is a step smaller than its bounds. [Config]'s
// Allowance is for that.
type storeClock struct {
	samples []clockSample // oldest first, within TTL + slack, at most maxSamples
	since   Time          // of the first sample of the run without contradiction
	running bool          // since and samples mean something
}

// clockSample says that, at some instant within one answer, the store's clock
// minus this node's was between low and high.
type clockSample struct {
	low, high Time
	at        Time // when the answer came, by this node's clock
}

// maxSamples bounds the samples (B1). At one renewal per third of a TTL the window
// holds four; the bound is for settings that renew far more often.
const maxSamples = 32

// clockSample bounds the difference of the two clocks by one stamp that the
// store made within an interval of this node's clock. The store's true time was
// at least the stamp, which is rounded down, and less than the stamp plus the
// rounding plus the age of a cached one. This node's was within the interval.
func (s *State) clockSample(sent, got Time, date Time) clockSample {
	return clockSample{low: date - got, high: date + 2*s.cfg.Rounding - sent, at: got}
}

// noteDate takes the sample of an own lease write that was sent and answered
// within the given interval. An answer without a Date ends the run: what was
// not watched is not known to have been steady.
func (s *State) noteDate(sent, got Time, st Stamps) {
	k := &s.clock
	if !st.HasDate {
		*k = storeClock{}
		return
	}
	m := s.clockSample(sent, got, st.Date)
	// Which of two contradicting samples is wrong cannot be told: the run starts
	// anew with the later one.
	if !k.running || !s.inStep(m) {
		*k = storeClock{running: true, since: got}
	}
	k.forget(got - s.cfg.TTL - s.cfg.Slack)
	k.samples = append(k.samples, m)
}

// forget drops samples from before an instant, and the oldest beyond the bound,
// with room for one more. The run goes on: since stays.
func (k *storeClock) forget(before Time) {
	n := 0
	for n < len(k.samples) && (k.samples[n].at < before || len(k.samples)-n >= maxSamples) {
		n++
	}
	k.samples = append(k.samples[:0], k.samples[n:]...)
}

// inStep reports whether a sample contradicts none of the recent ones, allowing
// for both clocks' drift: slack each per TTL, which is about what the oldest
// sample is away.
func (s *State) inStep(m clockSample) bool {
	drift := 2 * s.cfg.Slack
	for _, x := range s.clock.samples {
		if m.low > x.high+drift || x.low > m.high+drift {
			return false
		}
	}
	return true
}

// steady reports whether the store's clock had run in step for as long as the lease
// to be judged may live when its reading began, and does in the sample given. The sample of the reading itself is needed too: the
// clock may have been set since the last renewal.
func (s *State) steady(from Time, m clockSample, limit Time) bool {
	return s.clock.running && from-s.clock.since >= limit && s.inStep(m)
}
