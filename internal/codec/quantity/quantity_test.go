package quantity

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "0", "1", "100m", "1.5", "128Mi", "1Gi", "3E", "1e3", "1E3", "-5k", "+1e+3", "1e-9", "12345678901234567890123", "1e18", "9223372036854775807",
		"0.000000001", "1e100", "1e-100", "1e0000000000000001", strings.Repeat("9", 60), "nonsense", "e", "1e", "1e+", "999999999",
	} {
		if err := Check(text); err != nil {
			t.Errorf("Check(%q): %v", text, err)
		}
		// Parse accepts the same quantities as apimachinery.
		want, wantErr := resource.ParseQuantity(text)
		got, err := Parse(text)
		if (err != nil) != (wantErr != nil) || err == nil && (got.String() != want.String() || got.Format != want.Format) {
			t.Errorf("%s is %v, %v; want %v, %v", text, got, err, want, wantErr)
		}
	}
	for _, text := range absurd() {
		if _, err := Parse(text); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

func absurd() []string {
	return []string{
		"1e999999999", "1E999999999", "1e-999999999", "1e+999999999", "-1e-2147483647", "1e4294967296", "1e99999999999999999999999", "1.5e-999999",
		".1e999999999", "1e129", strings.Repeat("9", 129), "0." + strings.Repeat("0", 1_000_000) + "1", strings.Repeat("0", 200),
	}
}
