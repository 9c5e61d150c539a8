package history

import (
	"slices"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// MaxMarks is the maximum number of marks. When it is reached, every second mark of the older half is
// removed, which reduces the precision of old times.
const MaxMarks = 4096

// Mark records that Revision was the newest revision at a point in time, as measured by two clocks.
type Mark struct {
	Revision kv.Revision
	// Time is the time according to the machine's clock, which may jump in either direction between two marks
	// and between runs of the process.
	Time time.Time
	// Uptime is the total time that the backend was open, over all runs. It never decreases, so the age of
	// history is measured by it.
	Uptime time.Duration
}

// Marks contains the marks of one store, in ascending order of revision and uptime. The zero value is empty.
// All methods are safe for concurrent use.
type Marks struct {
	mu   sync.Mutex
	list []Mark
}

// Add appends a mark if its revision is greater than the newest marked revision, and reports whether it did.
// thinned contains the marks that were removed to stay within MaxMarks.
func (m *Marks) Add(mark Mark) (thinned []Mark, added bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Without the monotonic clock, a mark that was made while the clock was ahead is in the future.
	mark.Time = mark.Time.Round(0)
	if n := len(m.list); n > 0 {
		last := m.list[n-1]
		if mark.Revision <= last.Revision {
			return nil, false
		}
		mark.Uptime = max(mark.Uptime, last.Uptime)
	}
	if len(m.list) >= MaxMarks {
		thinned = m.thinLocked()
	}
	m.list = append(m.list, mark)
	return thinned, true
}

// thinLocked removes every second mark of the older half. It retains the oldest mark, which determines
// the oldest known time.
func (m *Marks) thinLocked() (thinned []Mark) {
	kept := m.list[:0]
	half := len(m.list) / 2
	for i, mark := range m.list {
		if i < half && i%2 == 1 {
			thinned = append(thinned, mark)
		} else {
			kept = append(kept, mark)
		}
	}
	m.list = kept
	return thinned
}

// Forget removes the marks of all revisions before the given one, because these revisions are compacted.
func (m *Marks) Forget(before kv.Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := 0
	for i < len(m.list) && m.list[i].Revision < before {
		i++
	}
	m.list = slices.Delete(m.list, 0, i)
}

// Last returns the newest mark, or false if there is none.
func (m *Marks) Last() (Mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.list) == 0 {
		return Mark{}, false
	}
	return m.list[len(m.list)-1], true
}

// Len returns the number of marks.
func (m *Marks) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.list)
}

// AtUptime returns the newest revision marked at or before an uptime, or 0 if there is none.
func (m *Marks) AtUptime(uptime time.Duration) kv.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found kv.Revision
	for _, mark := range m.list {
		if mark.Uptime > uptime {
			break
		}
		found = mark.Revision
	}
	return found
}

// AtTime returns the newest revision that is known to be at or before t, or false if the marks do
// not go back that far. now is the current time.
//
// If the clock jumped, later marks can have earlier times. A mark in the future was made while the
// clock was ahead and is ignored. After the first mark later than t, no mark counts, even if its
// own time is earlier, because its revision is newer: revisions made while the clock was behind are
// treated as being as new as the latest time before them.
func (m *Marks) AtTime(t, now time.Time) (kv.Revision, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found kv.Revision
	for _, mark := range m.list {
		if mark.Time.After(now) {
			continue
		}
		if mark.Time.After(t) {
			break
		}
		found = mark.Revision
	}
	return found, found > 0
}
