package cache

import (
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// LogLimits limits the log of recent changes of a resource. Watches of older changes read the history of the
// backend.
type LogLimits struct {
	Changes int           // maximum number of changes; 0 means 102400
	Bytes   int           // maximum estimated memory, in bytes; 0 means 64 MiB
	Age     time.Duration // maximum age of changes; 0 means 75 s
}

func (l LogLimits) withDefaults() LogLimits {
	if l.Changes == 0 {
		l.Changes = 100 * 1024
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.Age == 0 {
		l.Age = 75 * time.Second
	}
	return l
}

const (
	// minChanges is the number of changes that are retained regardless of their age.
	minChanges = 100
	// changeOverhead is the estimated memory cost of a change without its values, in bytes.
	changeOverhead = 400
	// maxDecoded is the number of newest records whose decoded objects are retained until the next sweep
	// of the feed.
	maxDecoded = 256
	// maxIdleBytes is the size limit, in bytes, of a log without changes for idleAfter.
	maxIdleBytes = 1 << 20
	idleAfter    = 10 * time.Second
)

// changeLog is the log of recent changes of a resource, in a ring buffer. The position of a change is the
// number of changes before it since the creation of the log. Readers store their own positions. Dropped
// changes can be read from the history of the backend. watchCache.mu guards it.
type changeLog struct {
	limits LogLimits
	// ring contains the positions from first up to, but not including, end. Position p has index p modulo
	// the length, which is a power of two.
	ring       []logEntry
	first, end uint64
	// since is the revision after which the log contains every change.
	since int64
	bytes int
	// notifier wakes the watches without a topic.
	notifier *notifier
	topics   map[topicKey]*topic
	// byField and byLabel contain the number of topics of each field and label.
	byField, byLabel map[string]int
}

type logEntry struct {
	change *storage.Change
	bytes  int
	at     time.Time
	// replaced is the retained record that the change replaced in the tree, or nil. It is released
	// when the entry is dropped: older entries may also contain the record, but newer entries cannot.
	replaced *codec.Record
}

func (e *logEntry) release() {
	if e.replaced != nil {
		e.replaced.Release()
		e.replaced = nil
	}
}

// topicKey identifies a topic. It selects changes by the key of one object, a prefix of keys, the value of a
// field, or the value of a label with an optional prefix. Unused fields are empty.
type topicKey struct{ key, prefix, field, label, value string }

// topic is the index of the changes that some watches select. It exists while there are such watches. A change
// wakes only the watches of its topics.
type topic struct {
	key     topicKey
	watches int // number of subscriptions
	// since is the position at which the topic was created. The topic contains all its changes from this
	// position on.
	since uint64
	// positions are the positions of the topic's changes. Positions before dropped were removed.
	positions []uint64
	dropped   uint64
	notifier  notifier
}

// minRing is the initial size of a ring. A log that never had a change has no ring.
const minRing = 16

func newLog(since int64, limits LogLimits) changeLog {
	return changeLog{
		limits: limits,
		since:  since, notifier: new(notifier),
		topics: map[topicKey]*topic{}, byField: map[string]int{}, byLabel: map[string]int{},
	}
}

func (l *changeLog) at(position uint64) *logEntry {
	return &l.ring[position&uint64(len(l.ring)-1)]
}

// append adds a change and drops old ones. replaced is the retained record that the change
// replaces, or nil; the log releases it.
func (l *changeLog) append(c *storage.Change, replaced *codec.Record, now time.Time) {
	size := changeOverhead + len(c.Key)
	if c.Record != nil {
		size += c.Record.StoredSize()
	} else if c.Prev != nil {
		size += c.Prev.StoredSize()
	}
	if l.end-l.first == uint64(len(l.ring)) {
		l.resize(max(2*len(l.ring), minRing))
	}
	*l.at(l.end) = logEntry{c, size, now, replaced}
	l.index(c)
	l.end++
	l.bytes += size
	if l.end-l.first > maxDecoded {
		if old := l.at(l.end - 1 - maxDecoded).change; old.Record != nil {
			old.Record.DropDecoded()
		}
	}
	l.trim(now)
}

// releaseDecoded drops the decoded objects of the newest records, which append retains for selectors.
func (l *changeLog) releaseDecoded() {
	first := l.first
	if l.end-first > maxDecoded {
		first = l.end - maxDecoded
	}
	for p := first; p < l.end; p++ {
		if record := l.at(p).change.Record; record != nil {
			record.DropDecoded()
		}
	}
}

// trim drops changes that exceed the limits.
func (l *changeLog) trim(now time.Time) {
	for {
		n := l.end - l.first
		full := n > uint64(l.limits.Changes) || n > 1 && l.bytes > l.limits.Bytes
		if !full && (n <= minChanges || now.Sub(l.at(l.first).at) < l.limits.Age) {
			break
		}
		l.evict()
	}
	l.shrink()
}

// release releases all records that the log retains.
func (l *changeLog) release() {
	for p := l.first; p < l.end; p++ {
		l.at(p).release()
	}
}

// trimIdle reduces a log without recent changes to maxIdleBytes, because its changes retain replaced records
// in memory. Most watches have already read these changes.
func (l *changeLog) trimIdle(now time.Time) {
	if l.end == l.first || now.Sub(l.at(l.end-1).at) < idleAfter {
		return
	}
	for l.end > l.first+1 && l.bytes > maxIdleBytes {
		l.evict()
	}
	l.shrink()
}

// evict drops the oldest change.
func (l *changeLog) evict() {
	oldest := l.at(l.first)
	l.since = oldest.change.Revision
	l.bytes -= oldest.bytes
	oldest.release()
	*oldest = logEntry{}
	l.first++
}

// shrink reduces the memory of a mostly empty ring.
func (l *changeLog) shrink() {
	if n := int(l.end - l.first); len(l.ring) > 256 && n < len(l.ring)/8 {
		l.resize(len(l.ring) / 4)
	}
}

func (l *changeLog) resize(size int) {
	ring := make([]logEntry, size)
	for p := l.first; p < l.end; p++ {
		ring[p&uint64(size-1)] = *l.at(p)
	}
	l.ring = ring
}

// after returns the position of the first change after a revision. It returns false if the log has dropped
// that change.
func (l *changeLog) after(revision int64) (uint64, bool) {
	if revision < l.since {
		return 0, false
	}
	n := sort.Search(int(l.end-l.first), func(i int) bool {
		return l.at(l.first+uint64(i)).change.Revision > revision
	})
	return l.first + uint64(n), true
}

// notifyAll wakes all watches.
func (l *changeLog) notifyAll() {
	l.notifier.notify()
	for _, t := range l.topics {
		t.notifier.notify()
	}
}

// index adds a change, which will be at position end, to its topics.
func (l *changeLog) index(c *storage.Change) {
	if len(l.topics) == 0 {
		return
	}
	prefix := c.Key[:strings.LastIndexByte(c.Key, '/')+1]
	l.addToTopic(topicKey{key: c.Key})
	l.addToTopic(topicKey{prefix: prefix})
	for field := range l.byField {
		l.indexField(field, c)
	}
	if len(l.byLabel) > 0 {
		l.indexLabels(prefix, c)
	}
}

// indexField adds a change to the topics of the old and new value of a field. If an object cannot be decoded,
// or has not been converted, indexField adds the change to all topics of the field, whose watches then
// convert the object or return the error.
func (l *changeLog) indexField(field string, c *storage.Change) {
	before, err := fieldValue(c.Prev, field)
	after, err2 := fieldValue(c.Record, field)
	if err != nil || err2 != nil {
		l.addToAll(func(key topicKey) bool { return key.field == field })
		return
	}
	if c.Prev != nil {
		l.addToTopic(topicKey{field: field, value: before})
	}
	if c.Record != nil && (c.Prev == nil || after != before) {
		l.addToTopic(topicKey{field: field, value: after})
	}
}

// indexLabels adds a change to the topics of the old and new values of labels, like indexField.
func (l *changeLog) indexLabels(prefix string, c *storage.Change) {
	before, err := labelsOf(c.Prev)
	after, err2 := labelsOf(c.Record)
	if err != nil || err2 != nil {
		l.addToAll(func(key topicKey) bool { return key.label != "" })
		return
	}
	add := func(label, value string) {
		l.addToTopic(topicKey{label: label, value: value})
		l.addToTopic(topicKey{label: label, value: value, prefix: prefix})
	}
	for label := range l.byLabel {
		oldValue, hadLabel := before.Lookup(label)
		value, hasLabel := after.Lookup(label)
		if hadLabel {
			add(label, oldValue)
		}
		if hasLabel && (!hadLabel || value != oldValue) {
			add(label, value)
		}
	}
}

func labelsOf(r *codec.Record) (labels.Labels, error) {
	if r == nil {
		return labels.Set{}, nil
	}
	return r.Labels()
}

// addToAll adds position end to all topics for which matches returns true.
func (l *changeLog) addToAll(matches func(topicKey) bool) {
	for key := range l.topics {
		if matches(key) {
			l.addToTopic(key)
		}
	}
}

func fieldValue(r *codec.Record, field string) (string, error) {
	if r == nil {
		return "", nil
	}
	return r.Field(field)
}

// addToTopic adds position end to a topic, if it exists, and wakes its watches.
func (l *changeLog) addToTopic(key topicKey) {
	t := l.topics[key]
	if t == nil {
		return
	}
	if n := sort.Search(len(t.positions), func(i int) bool { return t.positions[i] >= l.first }); n > 0 && n >= len(t.positions)/2 {
		t.dropped = t.positions[n-1] + 1
		t.positions = append(t.positions[:0], t.positions[n:]...)
	}
	t.positions = append(t.positions, l.end)
	t.notifier.notify()
}

// subscribe returns a topic, and creates it if necessary. The watch must call unsubscribe.
func (l *changeLog) subscribe(key topicKey) *topic {
	t := l.topics[key]
	if t == nil {
		t = &topic{key: key, since: l.end}
		l.topics[key] = t
		countTopic(l.byField, key.field, 1)
		countTopic(l.byLabel, key.label, 1)
	}
	t.watches++
	return t
}

// unsubscribe undoes one subscribe.
func (l *changeLog) unsubscribe(t *topic) {
	if t.watches--; t.watches > 0 {
		return
	}
	delete(l.topics, t.key)
	countTopic(l.byField, t.key.field, -1)
	countTopic(l.byLabel, t.key.label, -1)
}

// countTopic adds n to the number of topics of a field or label. An empty name is ignored.
func countTopic(counts map[string]int, name string, n int) {
	if name == "" {
		return
	}
	if counts[name] += n; counts[name] == 0 {
		delete(counts, name)
	}
}
