package backup

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

const (
	baseSuffix    = ".base"
	segmentSuffix = ".segment"
	// nameTime is the format of times in names, in UTC, with milliseconds.
	nameTime = "20060102T150405.000Z"
)

// Base is a snapshot of the store.
type Base struct {
	Object
	Revision kv.Revision
	Time     time.Time
}

// Segment contains all commits with the revisions First to Last.
type Segment struct {
	Object
	First, Last kv.Revision
	// FirstTime and LastTime are the times of the first and the last commit.
	FirstTime, LastTime time.Time
}

// newGeneration returns the name of a new generation.
func newGeneration(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return now.UTC().Format(nameTime) + "-" + hex.EncodeToString(random[:])
}

func (b *Base) setName(generation string) {
	b.Name = fmt.Sprintf("%s/%019d-%s%s", generation, b.Revision, b.Time.UTC().Format(nameTime), baseSuffix)
}

func (s *Segment) setName(generation string) {
	s.Name = fmt.Sprintf("%s/%019d-%019d-%s-%s%s", generation, s.First, s.Last, s.FirstTime.UTC().Format(nameTime), s.LastTime.UTC().Format(nameTime), segmentSuffix)
}

// parseName parses the name of an object. It returns neither a base nor a segment if the object has another
// name.
func parseName(o Object) (generation string, base *Base, segment *Segment) {
	generation, rest, ok := strings.Cut(o.Name, "/")
	if !ok || generation == "" {
		return "", nil, nil
	}
	if text, ok := strings.CutSuffix(rest, baseSuffix); ok {
		if parts := strings.Split(text, "-"); len(parts) == 2 {
			b := &Base{Object: o}
			if parseRevision(parts[0], &b.Revision) && parseTime(parts[1], &b.Time) {
				return generation, b, nil
			}
		}
	}
	if text, ok := strings.CutSuffix(rest, segmentSuffix); ok {
		if parts := strings.Split(text, "-"); len(parts) == 4 {
			s := &Segment{Object: o}
			if parseRevision(parts[0], &s.First) && parseRevision(parts[1], &s.Last) && s.First <= s.Last &&
				parseTime(parts[2], &s.FirstTime) && parseTime(parts[3], &s.LastTime) {
				return generation, nil, s
			}
		}
	}
	return "", nil, nil
}

func parseRevision(text string, to *kv.Revision) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	*to = kv.Revision(n)
	return err == nil && n >= 0 && len(text) == 19
}

func parseTime(text string, to *time.Time) bool {
	t, err := time.Parse(nameTime, text)
	*to = t
	return err == nil
}
