package history

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// revisionPrefix precedes a resourceVersion in the text form of a point in time.
const revisionPrefix = "rv/"

// ErrMoment is returned by ParseMoment for a text that cannot be parsed.
var ErrMoment = errors.New("it must be a time such as 2026-11-27T14:02:00Z, an age such as -15m or -2d, or rv/ and a resourceVersion")

// ParseMoment parses a point in the history. The text can be a revision such as "rv/1234", a time in RFC 3339,
// or an age relative to now such as "-15m". For a revision, ParseMoment returns the revision and the zero time;
// otherwise, it returns the revision 0 and the time. For any other text, it returns ErrMoment.
func ParseMoment(text string, now time.Time) (kv.Revision, time.Time, error) {
	if revision, ok := strings.CutPrefix(text, revisionPrefix); ok {
		n, err := strconv.ParseInt(revision, 10, 64)
		if err != nil || n <= 0 {
			return 0, time.Time{}, ErrMoment
		}
		return kv.Revision(n), time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		var age time.Duration
		age, err = ParseAge(ago)
		at = now.Add(-age)
	}
	if err != nil {
		return 0, time.Time{}, ErrMoment
	}
	return 0, at, nil
}

// ParseAge parses a non-negative duration such as 15m or 2d. A day has 24 hours. It returns an error for a
// negative duration and for any other text.
func ParseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	age, err := time.ParseDuration(text)
	if err == nil && age < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	return age, err
}

// parseTime parses a time in RFC 3339, or an age relative to now, such as 15m.
func parseTime(text string, now time.Time) (time.Time, error) {
	if age, err := ParseAge(text); err == nil {
		return now.Add(-age), nil
	}
	return time.Parse(time.RFC3339, text)
}
