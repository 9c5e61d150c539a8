package batch

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cronField specifies the valid values of one of the five fields in a schedule.
type cronField struct {
	least, most int
	names       string // names of the values, starting with least, separated by spaces
}

// checkCron validates a schedule, which consists of five fields or is a descriptor such as        daily. Its
// error messages are those of the parser in the CronJob controller.
func checkCron(schedule string) error {
	if strings.HasPrefix(schedule, "@") {
		return checkDescriptor(schedule)
	}
	parts := strings.Fields(schedule)
	if len(parts) != 5 {
		return fmt.Errorf("expected exactly 5 fields, found %d: %v", len(parts), parts)
	}
	for i, field := range [...]cronField{
		{0, 59, ""}, {0, 23, ""}, {1, 31, ""},
		{1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"}, {0, 6, "sun mon tue wed thu fri sat"},
	} {
		for part := range strings.SplitSeq(parts[i], ",") {
			if part == "" {
				continue
			}
			if err := field.check(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkDescriptor(word string) error {
	switch word {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return nil
	}
	if every, ok := strings.CutPrefix(word, "@every "); ok {
		if _, err := time.ParseDuration(every); err != nil {
			return fmt.Errorf("failed to parse duration %s: %w", word, err)
		}
		return nil
	}
	return fmt.Errorf("unrecognized descriptor: %s", word)
}

// check validates a number, range or star, each of which may be followed by a step.
func (f cronField) check(part string) error {
	span, step, stepped := strings.Cut(part, "/")
	low, high, ranged := strings.Cut(span, "-")
	start, end := f.least, f.most
	if low != "*" && low != "?" { // the parser ignores text between a star and the step, such as *-5
		var err error
		if start, err = f.number(low); err != nil {
			return err
		}
		if ranged {
			if strings.Contains(high, "-") {
				return fmt.Errorf("too many hyphens: %s", part)
			}
			if end, err = f.number(high); err != nil {
				return err
			}
		} else if !stepped {
			end = start
		}
	}
	if stepped {
		if strings.Contains(step, "/") {
			return fmt.Errorf("too many slashes: %s", part)
		}
		n, err := cronNumber(step)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("step of range should be a positive number: %s", part)
		}
	}
	switch {
	case start < f.least:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", start, f.least, part)
	case end > f.most:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", end, f.most, part)
	case start > end:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", start, end, part)
	}
	return nil
}

func (f cronField) number(text string) (int, error) {
	if f.names != "" {
		n := f.least
		for name := range strings.SplitSeq(f.names, " ") {
			if strings.EqualFold(name, text) {
				return n, nil
			}
			n++
		}
	}
	return cronNumber(text)
}

func cronNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", n, text)
	}
	return n, nil
}
