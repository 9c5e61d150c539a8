package cache

import (
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// LogLimits limit the log of recent changes of a resource: its age, its number of changes and its
// bytes. Zero fields select the defaults. Watches of older changes read the backend's history.
type LogLimits struct {
	Changes int           // 102400
	Bytes   int           // 64 MiB
	Age     time.Duration // 75 s
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
	// minChanges are retained regardless of their age.
	minChanges = 100
	// changeOverhead is the estimated memory cost of a change without its values, in bytes.
	changeOverhead = 400
	// keepDecoded is how many of the newest records stay decoded, until the next
	// tidyPeriod.
	keepDecoded = 256
	// restBytes is the limit of a log without writes for restAfter.
	restBytes = 1 << 20
	restAfter = 10 * time.Second
)

// changeLog is the log of recent changes of a resource, a ring buffer. A position is the number of
// changes since the creation of the log. Readers store their positions; the log has no list of
// readers. Dropped changes can be read from the backend's history. watchCache.mu guards it.
type changeLog struct {
	limits LogLimits
	// ring has positions first up to end, position p at p modulo its length,
	// which is a power of two.
	ring       []logEntry
	first, end uint64
	// since: every change after this revision is in the log.
	since int64
	bytes int
	// bell rings for the watches without a topic.
	bell   *bell
	topics map[topicKey]*topic
	// byField and byLabel count the topics of each field and label.
	byField, byLabel map[string]int
}

type logEntry struct {
	change *storage.Change
	bytes  int
	at     time.Time
	// replaced is the retained record that the change replaced in the tree, or nil. It is released
	// when the entry is dropped: older entries may also contain it, but no newer ones.
	replaced *codec.Record
}

func (e *logEntry) release() {
	if e.replaced != nil {
		e.replaced.Release()
		e.replaced = nil
	}
}

// topicKey is a selection of a watch: the key of one object, a prefix of keys, a value of a field,
// or a value of a label, optionally with a prefix. Unused parts are empty.
type topicKey struct{ key, prefix, field, label, value string }

// topic indexes the changes of a log that some watches select. It exists while there
// are such watches, so that a change neither wakes nor costs any others.
type topic struct {
	key     topicKey
	watches int
	// since is the position from which on the topic is complete.
	since uint64
	// positions are the positions of the topic's changes. Positions before forgotten were dropped.
	positions []uint64
	forgotten uint64
	bell      bell
}

func newLog(since int64, limits LogLimits) changeLog {
	return changeLog{
		limits: limits,
		ring:   make([]logEntry, 16), since: since, bell: new(bell),
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
		l.resize(2 * len(l.ring))
	}
	*l.at(l.end) = logEntry{c, size, now, replaced}
	l.index(c)
	l.end++
	l.bytes += size
	if l.end-l.first > keepDecoded {
		if old := l.at(l.end - 1 - keepDecoded).change; old.Record != nil {
			old.Record.Forget()
		}
	}
	l.trim(now)
}

// releaseDecoded drops the decoded objects of the newest records, which append retains for watches.
func (l *changeLog) releaseDecoded() {
	first := l.first
	if l.end-first > keepDecoded {
		first = l.end - keepDecoded
	}
	for p := first; p < l.end; p++ {
		if record := l.at(p).change.Record; record != nil {
			record.Forget()
		}
	}
}

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

// trimIdle drops most changes after restAfter without writes: watches have read them
// by then, and they retain replaced records.
func (l *changeLog) trimIdle(now time.Time) {
	if l.end == l.first || now.Sub(l.at(l.end-1).at) < restAfter {
		return
	}
	for l.end > l.first+1 && l.bytes > restBytes {
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

// after returns the position of the first change after a revision. It is false where
// the log does not go back so far.
func (l *changeLog) after(revision int64) (uint64, bool) {
	if revision < l.since {
		return 0, false
	}
	n := sort.Search(int(l.end-l.first), func(i int) bool {
		return l.at(l.first+uint64(i)).change.Revision > revision
	})
	return l.first + uint64(n), true
}

// ringAll wakes all watches.
func (l *changeLog) ringAll() {
	l.bell.ring()
	for _, t := range l.topics {
		t.bell.ring()
	}
}

// index adds a change, which is about to get position end, to its topics.
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

// indexField adds a change to the topics of the field's old and new values. If these cannot be
// determined, it adds the change to all topics of the field, so that their watches return the
// error.
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

// indexLabels adds a change to the topics of labels, like indexField. Watches of labels filter by
// the prefix of the key.
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
		was, had := before.Lookup(label)
		is, has := after.Lookup(label)
		if had {
			add(label, was)
		}
		if has && (!had || is != was) {
			add(label, is)
		}
	}
}

func labelsOf(r *codec.Record) (labels.Labels, error) {
	if r == nil {
		return labels.Set{}, nil
	}
	return r.Labels()
}

// addToAll adds position end to the topics of some keys.
func (l *changeLog) addToAll(of func(topicKey) bool) {
	for key := range l.topics {
		if of(key) {
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
		t.forgotten = t.positions[n-1] + 1
		t.positions = append(t.positions[:0], t.positions[n:]...)
	}
	t.positions = append(t.positions, l.end)
	t.bell.ring()
}

// subscribe returns a topic, made if need be, for a watch that must unsubscribe.
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

// countTopic counts n more topics of a name, if it is not empty.
func countTopic(of map[string]int, name string, n int) {
	if name == "" {
		return
	}
	if of[name] += n; of[name] == 0 {
		delete(of, name)
	}
}
