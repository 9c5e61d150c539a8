package codec_test

import (
	"errors"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/codec"
)

// TestChargeDocument checks that the estimated memory of a document depends on the number of its values and not on
// the content of its strings.
func TestChargeDocument(t *testing.T) {
	t.Parallel()
	const n = 10_000
	commas := strings.Repeat("x,", n)
	for name, tt := range map[string]struct {
		body string
		many bool
	}{
		"JSON fields":        {"{" + strings.Repeat(`"a":1,`, n) + `"b":1}`, true},
		"JSON elements":      {`{"a":[` + strings.Repeat(`{},`, n) + `1]}`, true},
		"JSON string":        {`{"a":"\"` + commas + `"}`, false},
		"JSON with newlines": {"\n{\n" + strings.Repeat("\n", n) + "}", false},
		"JSON patch":         {`[{"op":"add","path":"/a","value":[` + strings.Repeat(`1,`, n) + `1]}]`, true},
		"YAML":               {strings.Repeat("a: 1\n", n), true},
		"YAML string":        {"a: " + strings.Repeat("x.", n), false},
	} {
		errMuch := errors.New("more than 100 bytes per value")
		v := (&codec.Version{}).WithCharge(func(bytes int) error {
			if bytes > 100*n {
				return errMuch
			}
			return nil
		})
		if err := v.ChargeDocument([]byte(tt.body)); (err == errMuch) != tt.many {
			t.Errorf("%s: %v", name, err)
		}
	}
}
