package flags

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

// values has a field for each type of flag.
type values struct {
	Disabled        bool
	Limit           int
	Bytes           int64
	Period, Timeout time.Duration
	Interval        time.Duration
	Optional        *int64
	Port            int
	Addr            netip.Addr
	Prefixes        []netip.Prefix
	List            []string
}

func newFlagSet(v *values) *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	EnabledVar(fs, &v.Disabled, "enabled", "")
	FixedVar(fs, "fixed", "a", "")
	LimitVar(fs, &v.Limit, "limit", 400, "")
	BytesVar(fs, &v.Bytes, "bytes", "256Mi", "")
	PeriodVar(fs, &v.Period, "period", time.Minute, "")
	SecondsVar(fs, &v.Timeout, "seconds", time.Minute, "")
	PeriodSecondsVar(fs, &v.Interval, "period-seconds", time.Minute, "")
	OptionalSecondsVar(fs, &v.Optional, "optional", 300, "")
	PortVar(fs, &v.Port, "port", 6443, "")
	AddrVar(fs, &v.Addr, "addr", "")
	PrefixesVar(fs, &v.Prefixes, "prefixes", "")
	ListVar(fs, "list", "items", "", func(text string) error {
		v.List = append(v.List, text)
		return nil
	})
	return fs
}

// TestValues checks the values that flags store, and that fields of unset flags keep their zero values.
func TestValues(t *testing.T) {
	t.Parallel()
	zero := int64(0)
	tests := []struct {
		args string
		want values
	}{
		{"", values{}},
		{"--enabled", values{}},
		{"--enabled=false --fixed=a", values{Disabled: true}},
		{"--limit=0 --bytes=0 --period=0 --seconds=0 --period-seconds=0 --optional=0 --port=0", values{Limit: -1, Bytes: -1, Period: -1, Interval: -1, Optional: &zero, Port: -1}},
		{"--limit=5 --bytes=1Ki --period=5s --seconds=5 --period-seconds=5 --port=7", values{Limit: 5, Bytes: 1024, Period: 5 * time.Second, Timeout: 5 * time.Second, Interval: 5 * time.Second, Port: 7}},
		{"--addr=::ffff:10.0.0.1 --prefixes=10.1.2.3/8,fd00::/108", values{
			Addr: netip.MustParseAddr("10.0.0.1"), Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/108")},
		}},
		{"--list=a --list=b,c", values{List: []string{"a", "b,c"}}},
	}
	for _, tt := range tests {
		var got values
		if err := newFlagSet(&got).Parse(strings.Fields(tt.args)); err != nil {
			t.Errorf("parse %s: %v", tt.args, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
}

// TestText checks that String returns the default of a flag until the flag is set, and then its value.
func TestText(t *testing.T) {
	t.Parallel()
	fs := newFlagSet(&values{})
	if err := fs.Parse([]string{"--limit=5", "--enabled=false", "--list=a", "--list=b"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"limit": "5", "enabled": "false", "list": "a,b", "bytes": "256Mi", "period": "1m0s", "seconds": "60", "addr": ""} {
		if got := fs.Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
	if got := fs.Lookup("limit").DefValue; got != "400" {
		t.Errorf("the default of --limit is %q", got)
	}
}

// TestInvalid checks that invalid values are rejected and not stored.
func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--enabled=maybe", "--fixed=b", "--limit=-1", "--limit=a", "--bytes=-1", "--bytes=a", "--period=-1s", "--period=5", "--seconds=5m",
		"--period-seconds=-1", "--optional=5m", "--port=65536", "--port=-1", "--addr=a", "--prefixes=10.0.0.0",
	} {
		var got values
		if err := newFlagSet(&got).Parse([]string{arg}); err == nil {
			t.Errorf("%s is accepted", arg)
		}
		if diff := cmp.Diff(values{}, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("%s is stored (-want +got):\n%s", arg, diff)
		}
	}
}
