package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/flags"
)

//go:embed upstream-flags.tsv
var upstreamFlags string

// upstreamFlag is a flag of kube-apiserver.
type upstreamFlag struct {
	name, kind string
	// noEffect is the reason why the flag has no effect in this server, or "".
	noEffect string
}

// listUpstreamFlags returns the flags of kube-apiserver.
func listUpstreamFlags() []upstreamFlag {
	var all []upstreamFlag
	for _, row := range tableRows(upstreamFlags) {
		flag := upstreamFlag{name: row[0], kind: row[1]}
		if len(row) > 3 {
			flag.noEffect = row[3]
		}
		all = append(all, flag)
	}
	return all
}

// ignoredValue is the value of a flag of kube-apiserver that has no effect. It only checks the type.
type ignoredValue struct{ kind, reason, text string }

// Set implements pflag.Value.
func (v *ignoredValue) Set(text string) (err error) {
	switch v.kind {
	case "bool":
		_, err = strconv.ParseBool(text)
	case "int":
		_, err = strconv.Atoi(text)
	case "duration":
		_, err = time.ParseDuration(text)
	case "quantity":
		_, err = resource.ParseQuantity(text)
	}
	v.text = text
	return err
}

// String implements pflag.Value.
func (v *ignoredValue) String() string { return v.text }

// Type implements pflag.Value.
func (v *ignoredValue) Type() string { return v.kind }

// addIgnoredFlags adds hidden flags for the flags of kube-apiserver that have no effect.
func addIgnoredFlags(all *pflag.FlagSet) {
	for _, upstream := range listUpstreamFlags() {
		if upstream.noEffect == "" {
			continue
		}
		flag := all.VarPF(&ignoredValue{kind: upstream.kind, reason: upstream.noEffect}, upstream.name, "", "no effect: "+upstream.noEffect)
		flag.Hidden = true
		if upstream.kind == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
}

// warnings returns a message for each flag that is set without an effect.
func (f *serveFlags) warnings() []string {
	var warnings []string
	f.all.Visit(func(flag *pflag.Flag) {
		if ignored, ok := flag.Value.(*ignoredValue); ok {
			warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", flag.Name, ignored.reason))
		}
	})
	if f.storageBackend == etcdBackend && len(f.config.Storage.Etcd.Servers) == 0 {
		warnings = append(warnings, "--storage-backend=etcd3 has no effect without --etcd-servers: the server uses its embedded store")
	}
	if f.config.ControlPlane.Services.EndpointReconciler == controlplane.EndpointsByMasterCount {
		warnings = append(warnings, "--endpoint-reconciler-type=master-count has the effect of lease: the endpoints are those of the servers that run")
	}
	return warnings
}

// etcdBackend is the only value of --storage-backend in kube-apiserver.
const etcdBackend = "etcd3"

// addBackendFlag adds the flag --storage-backend, which kube-apiserver has.
func (f *serveFlags) addBackendFlag(fs *pflag.FlagSet) {
	flags.Var(fs, "storage-backend", "string", "", "etcd3, or empty; the server uses etcd if --etcd-servers is set, and its embedded store otherwise", func(text string) error {
		if text != "" && text != etcdBackend {
			return errors.New("it must be " + etcdBackend + ", or empty")
		}
		f.storageBackend = text
		return nil
	})
}

// addVersionFlags adds the flags of emulated versions (KEP-4330). Only the version of this server can
// be emulated.
func addVersionFlags(fs *pflag.FlagSet) {
	minor := strings.TrimPrefix(controlplane.KubernetesVersion, "v")
	minor = minor[:strings.LastIndexByte(minor, '.')]
	check := func(text string) error {
		for item := range strings.SplitSeq(text, ",") {
			version := strings.TrimPrefix(strings.TrimPrefix(item, "kube="), "v")
			if item != "" && version != minor {
				return fmt.Errorf("this server behaves like %s; other versions are not possible", minor)
			}
		}
		return nil
	}
	flags.ListVar(fs, "emulated-version", "versions", "Kubernetes version to behave like, as kube=MAJOR.MINOR; only "+minor+" is possible", check)
	flags.ListVar(fs, "min-compatibility-version", "versions", "oldest Kubernetes version of other servers that use the same etcd, as kube=MAJOR.MINOR; the versions 1.31 to "+minor+" are possible, and all encode objects in the same way", checkCompatible)
}

// checkCompatible checks a value of --min-compatibility-version.
func checkCompatible(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		version := strings.TrimPrefix(strings.TrimPrefix(item, "kube="), "v")
		minor, isVersion := strings.CutPrefix(version, "1.")
		if n, err := strconv.Atoi(minor); item != "" && (!isVersion || err != nil || n < 31 || n > 37) {
			return fmt.Errorf("%q is not a version from 1.31 to 1.37", item)
		}
	}
	return nil
}
