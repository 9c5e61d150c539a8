package storage

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Limits on the number of parameters of a class and on their total size, in bytes.
const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
)

func validateClass(f validation.Field, class, old *storagev1.StorageClass) {
	validateProvisioner(f.Child("provisioner"), class.Provisioner)
	validateParameters(f.Child("parameters"), class.Parameters)
	if policy := class.ReclaimPolicy; policy != nil && *policy != "" {
		validation.OneOf(f.Child("reclaimPolicy"), *policy, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if mode := class.VolumeBindingMode; mode == nil {
		f.Child("volumeBindingMode").Required("")
	} else {
		validation.OneOf(f.Child("volumeBindingMode"), *mode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	validateTopologies(f.Child("allowedTopologies"), class.AllowedTopologies)
	if old != nil {
		validation.Immutable(f.Child("provisioner"), class.Provisioner, old.Provisioner)
		validation.Immutable(f.Child("parameters"), class.Parameters, old.Parameters)
		validation.Immutable(f.Child("reclaimPolicy"), class.ReclaimPolicy, old.ReclaimPolicy)
		validation.Immutable(f.Child("volumeBindingMode"), class.VolumeBindingMode, old.VolumeBindingMode)
	}
}

// validateProvisioner requires a qualified name. Upper-case letters are accepted.
func validateProvisioner(f validation.Field, name string) {
	if name == "" {
		f.Required("")
		return
	}
	f.QualifiedName(strings.ToLower(name))
}

func validateParameters(f validation.Field, parameters map[string]string) {
	if len(parameters) > maxParameters {
		f.TooLong(maxParameters)
		return
	}
	size := 0
	for key, value := range parameters {
		if key == "" {
			f.Invalid(key, "field can not be empty.")
		}
		size += len(key) + len(value)
	}
	if size > maxParametersSize {
		f.TooLong(maxParametersSize)
	}
}

// validateTopologies validates topology terms. As in kube-apiserver, an empty term is reported as a
// duplicate, even if it is the only term.
func validateTopologies(f validation.Field, terms []corev1.TopologySelectorTerm) {
	seen := validation.NewDuplicates[string](len(terms))
	for i := range terms {
		at, term := f.Index(i).Child("matchLabelExpressions"), terms[i].MatchLabelExpressions
		validateTopology(at, term)
		if len(term) == 0 || len(terms) > 1 && seen.IsDuplicate(topology(term)) {
			at.Duplicate("")
		}
	}
}

func validateTopology(f validation.Field, term []corev1.TopologySelectorLabelRequirement) {
	keys := validation.NewDuplicates[string](len(term))
	for i := range term {
		at, values := f.Index(i), term[i].Values
		if len(values) == 0 {
			at.Child("values").Required("")
		}
		seen := validation.NewDuplicates[string](len(values))
		for j, value := range values {
			if seen.IsDuplicate(value) {
				at.Child("values").Index(j).Duplicate(value)
			}
		}
		at.Child("key").QualifiedName(term[i].Key)
		if keys.IsDuplicate(term[i].Key) {
			at.Child("key").Duplicate(term[i].Key)
		}
	}
}

// topology formats a term. Terms that differ only in the order of keys and values have the same text.
func topology(term []corev1.TopologySelectorLabelRequirement) string {
	values := make(map[string][]string, len(term))
	for i := range term {
		sorted := slices.Sorted(slices.Values(term[i].Values))
		values[term[i].Key] = slices.Compact(sorted)
	}
	return fmt.Sprintf("%q", values)
}

func validateAttributesClass(f validation.Field, class, old *storagev1.VolumeAttributesClass) {
	driver, parameters := f.Child("driverName"), f.Child("parameters")
	validateProvisioner(driver, class.DriverName)
	validateParameters(parameters, class.Parameters)
	if len(class.Parameters) == 0 {
		parameters.Required("must contain at least one key/value pair")
	}
	if old == nil {
		return
	}
	if class.DriverName != old.DriverName {
		driver.Forbidden("updates to driverName are forbidden.")
	}
	if validation.Changed(class.Parameters, old.Parameters) {
		parameters.Forbidden("updates to parameters are forbidden.")
	}
}
