package builtin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Enablement specifies which resources are enabled. By default, only resources of stable versions are enabled.
// It is immutable.
type Enablement struct {
	versions  map[schema.GroupVersion]bool
	resources map[schema.GroupVersionResource]bool
}

// Keys of --runtime-config that select several versions, in the order in which they are applied.
const (
	everyVersion  = "api/all"
	stableVersion = "api/ga"
	betaVersion   = "api/beta"
	alphaVersion  = "api/alpha"
)

// stageOf returns the --runtime-config key that selects all versions with the same stability as version.
func stageOf(version string) string {
	const digits = "0123456789"
	stage := strings.TrimLeft(strings.TrimPrefix(version, "v"), digits)
	switch strings.TrimRight(stage, digits) {
	case "":
		return stableVersion
	case "beta":
		return betaVersion
	}
	return alphaVersion
}

func isStable(version string) bool { return stageOf(version) == stableVersion }

// NewEnablement parses --runtime-config. A key is "api/all", "api/ga", "api/beta", "api/alpha", GROUP/VERSION
// or GROUP/VERSION/RESOURCE. known contains all versions that keys may name, including removed versions. Error
// messages are the same as in kube-apiserver.
func NewEnablement(config map[string]string, known []schema.GroupVersion) (Enablement, error) {
	e := Enablement{map[schema.GroupVersion]bool{}, map[schema.GroupVersionResource]bool{}}
	if config[everyVersion] == "false" && len(config) == 1 {
		return e, errors.New("invalid runtime-config with only api/all=false")
	}
	var errs []error
	for _, stage := range [...]string{everyVersion, stableVersion, betaVersion, alphaVersion} {
		value, ok := config[stage]
		if ok && value != "true" && value != "false" {
			errs = append(errs, fmt.Errorf("invalid value %s=%s", stage, value))
		}
		for _, gv := range known {
			if ok && (stage == everyVersion || stage == stageOf(gv.Version)) {
				e.versions[gv] = value == "true"
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if err := e.set(key, config[key], known); err != nil {
			errs = append(errs, err)
		}
	}
	return e, errors.Join(errs...)
}

// set applies a key that names a version or a resource. It ignores the keys that select several versions.
func (e *Enablement) set(key, value string, known []schema.GroupVersion) error {
	switch key {
	case everyVersion, stableVersion, betaVersion, alphaVersion:
		return nil
	}
	parts := strings.Split(key, "/")
	if len(parts) != 2 && len(parts) != 3 {
		return fmt.Errorf("runtime-config invalid key %s", key)
	}
	gv := schema.GroupVersion{Group: parts[0], Version: parts[1]}
	switch {
	case !slices.ContainsFunc(known, func(k schema.GroupVersion) bool { return k.Group == gv.Group }):
		return fmt.Errorf("unknown api groups %s", gv)
	case !slices.Contains(known, gv):
		return fmt.Errorf("group version %s that has not been registered", gv)
	}
	on, err := strconv.ParseBool(value)
	switch {
	case value == "":
		on = true
	case err != nil:
		return fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
	}
	if len(parts) == 2 {
		e.versions[gv] = on
		return nil
	}
	if strings.ToLower(parts[2]) != parts[2] {
		return fmt.Errorf("invalid key %s: group/version/resource and resource is always lowercase plural, not %q", key, parts[2])
	}
	e.resources[gv.WithResource(parts[2])] = on
	return nil
}

// Serves reports whether a resource and its subresources are enabled.
func (e Enablement) Serves(resource schema.GroupVersionResource) bool {
	if on, ok := e.resources[resource]; ok {
		return on
	}
	if on, ok := e.versions[resource.GroupVersion()]; ok {
		return on
	}
	return isStable(resource.Version)
}

// isExplicit reports whether the configuration enables the resource, its version, or a set of versions that
// includes its version.
func (e Enablement) isExplicit(resource schema.GroupVersionResource) bool {
	if on, ok := e.resources[resource]; ok {
		return on
	}
	return e.versions[resource.GroupVersion()]
}

// All reports whether all built resources are served.
func (e Enablement) All() bool {
	for _, on := range e.versions {
		if !on {
			return false
		}
	}
	for _, on := range e.resources {
		if !on {
			return false
		}
	}
	return true
}

// NewerResources selects resources to serve although they are newer than the emulated version.
type NewerResources struct {
	// Stable selects resources of stable versions.
	Stable bool
	// Explicit selects resources that Enablement enables explicitly.
	Explicit bool
}

// Serves reports whether a resource and its subresources are served. This requires that the resource is
// enabled and that either the emulated version has its kind or Newer selects the resource.
func (env *Env) Serves(resource schema.GroupVersionResource, kind string) bool {
	return env.Enablement.Serves(resource) &&
		(env.Release.HasKind(resource.GroupVersion().WithKind(kind)) ||
			env.Newer.Stable && isStable(resource.Version) || env.Newer.Explicit && env.Enablement.isExplicit(resource))
}

// builds reports whether a resource is built, which is the case if it is enabled or its version is stable.
func (env *Env) builds(resource schema.GroupVersionResource) bool {
	return isStable(resource.Version) || env.Enablement.Serves(resource)
}

// needs reports whether a row is built in at least one version. The storage of other rows is not opened.
func (env *Env) needs(r *resource, gv schema.GroupVersion) bool {
	if r.Gate != "" && !env.Gates.Enabled(r.Gate) {
		return false
	}
	return slices.ContainsFunc(r.versions(gv), func(gv schema.GroupVersion) bool { return env.builds(gv.WithResource(r.Names.Plural)) })
}

// AllVersions returns all versions in which the resources of groups can be served, without duplicates.
func AllVersions(groups []Group) []schema.GroupVersion {
	var versions []schema.GroupVersion
	for _, group := range groups {
		for _, entry := range group.Resources {
			for _, gv := range entry.versions(group.GroupVersion) {
				if !slices.Contains(versions, gv) {
					versions = append(versions, gv)
				}
			}
		}
	}
	return versions
}

// releasesServed is the number of minor releases between the deprecation and the removal of a
// version.
const releasesServed = 3

// deprecation describes the deprecation of a version. It is the zero value if the version is not deprecated.
type deprecation struct {
	warning        string
	removedRelease string // a Kubernetes release; "" if it is unknown
}

// deprecatedSince returns the deprecation of a version. since is the minor Kubernetes version that deprecated
// the version, or 0 if it is not deprecated. As in kube-apiserver, the warning names a successor only if the
// types in k8s.io/api declare one; otherwise successor is "".
func (env *Env) deprecatedSince(since int, gvk schema.GroupVersionKind, successor string) deprecation {
	if since == 0 || since > env.Release.Minor() {
		return deprecation{}
	}
	text := fmt.Sprintf("%s %s is deprecated in v1.%d+, unavailable in v1.%d+", gvk.GroupVersion(), gvk.Kind, since, since+releasesServed)
	if successor != "" {
		text += fmt.Sprintf("; use %s/%s %s", gvk.Group, successor, gvk.Kind)
	}
	return deprecation{text, fmt.Sprintf("1.%d", since+releasesServed)}
}
