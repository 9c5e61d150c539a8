package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseAge parses a non-negative duration such as 15m or 2d.
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

// parseTime parses a time, or an age before now.
func parseTime(text string, now time.Time) (time.Time, error) {
	if age, err := ParseAge(text); err == nil {
		return now.Add(-age), nil
	}
	return time.Parse(time.RFC3339, text)
}
