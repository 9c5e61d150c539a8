package core

import (
	"bytes"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// frozen is the error detail for a change of an immutable object.
const frozen = "field is immutable when `immutable` is set"

func validateConfigMap(f validation.Field, configMap, old *corev1.ConfigMap) {
	if old != nil && isImmutable(old.Immutable) {
		if !isImmutable(configMap.Immutable) {
			f.Child("immutable").Forbidden(frozen)
		}
		if !maps.Equal(configMap.Data, old.Data) {
			f.Child("data").Forbidden(frozen)
		}
		if !maps.EqualFunc(configMap.BinaryData, old.BinaryData, bytes.Equal) {
			f.Child("binaryData").Forbidden(frozen)
		}
	}
	size := validateKeys(f.Child("data"), configMap.Data) + validateKeys(f.Child("binaryData"), configMap.BinaryData)
	if len(configMap.BinaryData) > 0 {
		for key := range configMap.Data {
			if _, both := configMap.BinaryData[key]; both {
				f.Child("data").Key(key).Invalid(key, "duplicate of key present in binaryData")
			}
		}
	}
	if size > corev1.MaxSecretSize {
		f.Child("").TooLong(corev1.MaxSecretSize) // the empty name selects the whole object
	}
}

// validateKeys validates the keys of data, and returns the total size of the values in bytes.
func validateKeys[V string | []byte](f validation.Field, data map[string]V) (size int) {
	for key, value := range data {
		f.Key(key).ConfigMapKey(key)
		size += len(value)
	}
	return size
}

func isImmutable(declared *bool) bool { return declared != nil && *declared }
