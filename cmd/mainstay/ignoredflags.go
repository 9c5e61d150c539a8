package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/feature/emulation"
)

// ignoredFlag is a flag of kube-apiserver that has no effect in Mainstay. Its value is still validated.
type ignoredFlag struct {
	name, kind string
	// reason explains why the flag has no effect, for the log and the reference.
	reason string
	check  func(value string) error
}

// The names of the flags for coordinated leader election, which depend on each other.
const (
	leadershipLeaseDuration = "coordinated-leadership-lease-duration"
	leadershipRenewDeadline = "coordinated-leadership-renew-deadline"
	leadershipRetryPeriod   = "coordinated-leadership-retry-period"
)

// ignoredFlags returns the flags of kube-apiserver that have no effect in Mainstay.
func ignoredFlags() []ignoredFlag {
	const (
		unbuffered     = "log lines are written immediately"
		noCoordination = "this server does not coordinate the leader election of other components"
	)
	return []ignoredFlag{
		{"apiserver-count", "int", "the endpoints of the service default/kubernetes are published by leases, which need no count", checkPositive},
		{leadershipLeaseDuration, "duration", noCoordination, checkDuration},
		{leadershipRenewDeadline, "duration", noCoordination, checkDuration},
		{leadershipRetryPeriod, "duration", noCoordination, checkDuration},
		{"default-watch-cache-size", "int", "watch caches grow as required, also in kube-apiserver", checkInteger},
		{"log-flush-frequency", "duration", unbuffered, checkPositiveDuration},
		{"log-json-info-buffer-size", "quantity", unbuffered, checkQuantity},
		{"log-text-info-buffer-size", "quantity", unbuffered, checkQuantity},
		{"permit-address-sharing", "bool", "all listening sockets have SO_REUSEADDR", checkBool},
		{"show-hidden-metrics-for-version", "string", "this server hides no metrics", checkPreviousVersion},
	}
}

// ignoredValue is the value of an ignoredFlag.
type ignoredValue struct {
	ignoredFlag
	value string
}

// Set implements pflag.Value.
func (v *ignoredValue) Set(text string) error {
	if err := v.check(text); err != nil {
		return err
	}
	v.value = text
	return nil
}

// String implements pflag.Value.
func (v *ignoredValue) String() string { return v.value }

// Type implements pflag.Value.
func (v *ignoredValue) Type() string { return v.kind }

// addIgnoredFlags defines hidden flags for ignoredFlags.
func addIgnoredFlags(fs *pflag.FlagSet) {
	for _, ignored := range ignoredFlags() {
		flag := fs.VarPF(&ignoredValue{ignoredFlag: ignored}, ignored.name, "", ignored.reason)
		flag.Hidden = true
		if ignored.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// warnIgnored logs a warning for each flag that is set but has no effect.
func (f *serveFlags) warnIgnored(logger *slog.Logger) {
	f.all.Visit(func(flag *pflag.Flag) {
		if ignored, ok := flag.Value.(*ignoredValue); ok {
			logger.Warn("a flag of kube-apiserver has no effect", "flag", "--"+flag.Name, "value", ignored.value, "reason", ignored.reason)
		}
	})
}

// checkLeadership validates the flags for coordinated leader election against each other, as in kube-apiserver.
func (f *serveFlags) checkLeadership() error {
	of := func(name string, preset time.Duration) time.Duration {
		if d, err := time.ParseDuration(f.all.Lookup(name).Value.String()); err == nil {
			return d
		}
		return preset
	}
	lease, renew, retry := of(leadershipLeaseDuration, 15*time.Second), of(leadershipRenewDeadline, 10*time.Second), of(leadershipRetryPeriod, 2*time.Second)
	var errs []error
	if lease <= renew {
		errs = append(errs, fmt.Errorf("--%s is %s; it must be greater than --%s (%s)", leadershipLeaseDuration, lease, leadershipRenewDeadline, renew))
	}
	if renew <= retry {
		errs = append(errs, fmt.Errorf("--%s is %s; it must be greater than --%s (%s)", leadershipRenewDeadline, renew, leadershipRetryPeriod, retry))
	}
	return errors.Join(errs...)
}

func checkBool(text string) error {
	_, err := strconv.ParseBool(text)
	return err
}

func checkInteger(text string) error {
	_, err := strconv.Atoi(text)
	return err
}

func checkPositive(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = errors.New("it must be a positive number")
	}
	return err
}

func checkDuration(text string) error {
	_, err := time.ParseDuration(text)
	return err
}

func checkPositiveDuration(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("it must be greater than zero")
	}
	return err
}

func checkQuantity(text string) error {
	if q, err := resource.ParseQuantity(text); err != nil || q.Sign() < 0 {
		return errors.New("it is not a size in bytes, such as 512Ki")
	}
	return nil
}

func checkPreviousVersion(text string) error {
	if previous := fmt.Sprintf("1.%d", emulation.Newest-1); text != "" && text != previous {
		return fmt.Errorf("must be omitted or have the value '%s'; only the previous minor version is allowed", previous)
	}
	return nil
}
