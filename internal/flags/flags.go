// Package flags defines command-line flags of types that pflag does not provide: switches that are on by
// default, limits and periods that the value 0 disables, sizes, ports, addresses and TLS settings. The
// configuration groups of the server use this package in their AddFlags methods.
//
// Each function defines one flag and stores the flag's value in *p. Unless documented otherwise, *p is
// unchanged until the flag is set; the parameter preset is only the default that the help shows. Invalid values
// are returned as errors by FlagSet.Parse. Like pflag, the functions panic if the flag is already defined.
package flags

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// value is a pflag.Value that passes each text to set.
type value struct {
	kind, text string
	set        func(string) error
}

// Set implements pflag.Value.
func (v *value) Set(text string) error {
	if err := v.set(text); err != nil {
		return err
	}
	v.text = text
	return nil
}

// String implements pflag.Value.
func (v *value) String() string { return v.text }

// Type implements pflag.Value.
func (v *value) Type() string { return v.kind }

// Var defines a flag that calls set with each value. An error of set becomes an error of FlagSet.Parse. kind is
// the type that the help shows. preset is the default that the help shows; it is empty if usage describes the
// default.
func Var(fs *pflag.FlagSet, name, kind, preset, usage string, set func(string) error) {
	fs.Var(&value{kind: kind, text: preset, set: set}, name, usage)
}

// ListVar defines a flag like Var, but the flag may be repeated. Its String method returns all values,
// separated by commas.
func ListVar(fs *pflag.FlagSet, name, kind, usage string, set func(string) error) {
	fs.Var(&list{value{kind: kind, set: set}}, name, usage)
}

// list is a value that may be repeated.
type list struct{ value }

// Set implements pflag.Value.
func (l *list) Set(text string) error {
	if err := l.set(text); err != nil {
		return err
	}
	if l.text != "" && text != "" {
		text = "," + text
	}
	l.text += text
	return nil
}

// EnabledVar defines a bool flag that is true by default. It stores the negated value: *disabled becomes true
// if the flag is set to false.
func EnabledVar(fs *pflag.FlagSet, disabled *bool, name, usage string) {
	Var(fs, name, "bool", "true", usage, func(text string) error {
		enabled, err := strconv.ParseBool(text)
		if err == nil {
			*disabled = !enabled
		}
		return err
	})
	fs.Lookup(name).NoOptDefVal = "true"
}

// FixedVar defines a flag whose only valid value is fixed.
func FixedVar(fs *pflag.FlagSet, name, fixed, usage string) {
	Var(fs, name, "string", fixed, usage, func(text string) error {
		if text != fixed {
			return fmt.Errorf("%s is not supported yet", text)
		}
		return nil
	})
}

// disabled is stored if a limit or period is set to 0, because 0 in a configuration selects the default.
const disabled = -1

var (
	errNegative   = errors.New("it cannot be negative")
	errNotANumber = errors.New("it is not a number")
)

// LimitVar defines a flag for a maximum that is not negative. The value 0 disables the limit and is stored as
// -1.
func LimitVar(fs *pflag.FlagSet, p *int, name string, preset int, usage string) {
	Var(fs, name, "int", strconv.Itoa(preset), usage, func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return errNotANumber
		case n < 0:
			return errNegative
		case n == 0:
			n = disabled
		}
		*p = n
		return nil
	})
}

// PositiveVar defines a flag for an integer that is at least 1.
func PositiveVar(fs *pflag.FlagSet, p *int, name string, preset int, usage string) {
	Var(fs, name, "int", strconv.Itoa(preset), usage, func(text string) error {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return errNotANumber
		case n < 1:
			return errors.New("it must be at least 1")
		}
		*p = n
		return nil
	})
}

// BytesVar defines a flag for a maximum size in bytes. It accepts the suffixes of Kubernetes quantities, as in
// 512Mi. The value 0 disables the limit and is stored as -1.
func BytesVar(fs *pflag.FlagSet, p *int64, name, preset, usage string) {
	Var(fs, name, "quantity", preset, usage, func(text string) error {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return errors.New("it is not a size in bytes, such as 512Mi")
		}
		n := q.Value()
		switch {
		case n < 0:
			return errNegative
		case n == 0:
			n = disabled
		}
		*p = n
		return nil
	})
}

// PeriodVar defines a flag for a duration such as 5m that is not negative. The value 0 disables the feature and
// is stored as -1.
func PeriodVar(fs *pflag.FlagSet, p *time.Duration, name string, preset time.Duration, usage string) {
	Var(fs, name, "duration", preset.String(), usage, func(text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return errors.New("it is not a duration such as 5m")
		case d < 0:
			return errNegative
		case d == 0:
			d = disabled
		}
		*p = d
		return nil
	})
}

// SecondsVar defines a flag for a duration as an integer number of seconds, which may be negative.
func SecondsVar(fs *pflag.FlagSet, p *time.Duration, name string, preset time.Duration, usage string) {
	Var(fs, name, "int", strconv.Itoa(int(preset/time.Second)), usage, func(text string) error {
		d, err := parseSeconds(text)
		if err == nil {
			*p = d
		}
		return err
	})
}

// PeriodSecondsVar defines a flag for a duration as an integer number of seconds, which cannot be negative. The
// value 0 disables the feature and is stored as -1.
func PeriodSecondsVar(fs *pflag.FlagSet, p *time.Duration, name string, preset time.Duration, usage string) {
	Var(fs, name, "int", strconv.Itoa(int(preset/time.Second)), usage, func(text string) error {
		d, err := parseSeconds(text)
		switch {
		case err != nil:
			return err
		case d < 0:
			return errNegative
		case d == 0:
			d = disabled
		}
		*p = d
		return nil
	})
}

func parseSeconds(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, errors.New("it is not a number of seconds")
	}
	return time.Duration(n) * time.Second, nil
}

// OptionalSecondsVar defines a flag for an integer number of seconds, which may be 0. *p remains nil until the
// flag is set.
func OptionalSecondsVar(fs *pflag.FlagSet, p **int64, name string, preset int64, usage string) {
	Var(fs, name, "int", strconv.FormatInt(preset, 10), usage, func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("it must be a number of seconds")
		}
		*p = &n
		return nil
	})
}

// PortVar defines a flag for a TCP port to listen on. The value 0 selects a free port and is stored as -1.
func PortVar(fs *pflag.FlagSet, p *int, name string, preset int, usage string) {
	Var(fs, name, "int", strconv.Itoa(preset), usage, func(text string) error {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return errors.New("it must be a port: a number from 1 to 65535, or 0 for a free port")
		}
		if *p = int(n); n == 0 {
			*p = disabled
		}
		return nil
	})
}

// AddrVar defines a flag for an IP address. An IPv4-mapped IPv6 address is stored as IPv4.
func AddrVar(fs *pflag.FlagSet, p *netip.Addr, name, usage string) {
	Var(fs, name, "ip", "", usage, func(text string) error {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return errors.New("it is not an IP address")
		}
		*p = addr.Unmap()
		return nil
	})
}

// PrefixesVar defines a flag for a comma-separated list of CIDRs. The host bits of each address are cleared. A
// repeated flag replaces the list.
func PrefixesVar(fs *pflag.FlagSet, p *[]netip.Prefix, name, usage string) {
	Var(fs, name, "cidrs", "", usage, func(text string) error {
		var prefixes []netip.Prefix
		for item := range strings.SplitSeq(text, ",") {
			prefix, err := netip.ParsePrefix(strings.TrimSpace(item))
			if err != nil {
				return fmt.Errorf("%q is not a CIDR such as 10.96.0.0/12", item)
			}
			prefixes = append(prefixes, prefix.Masked())
		}
		*p = prefixes
		return nil
	})
}
