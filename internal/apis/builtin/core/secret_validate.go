package core

import (
	"bytes"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateSecret(f validation.Field, secret, old *corev1.Secret) {
	data := f.Child("data")
	if old != nil {
		validation.Immutable(f.Child("type"), secret.Type, old.Type)
	}
	if old != nil && isImmutable(old.Immutable) {
		if !isImmutable(secret.Immutable) {
			f.Child("immutable").Forbidden(frozen)
		}
		if !maps.EqualFunc(secret.Data, old.Data, bytes.Equal) {
			data.Forbidden(frozen)
		}
	}
	if validateKeys(data, secret.Data) > corev1.MaxSecretSize {
		data.TooLong(corev1.MaxSecretSize)
	}
	validateSecretData(f, secret)
}

// validateSecretData validates the data of secrets whose type is defined by Kubernetes.
func validateSecretData(f validation.Field, secret *corev1.Secret) {
	data := f.Child("data")
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken: // a controller adds the data later
		if secret.Annotations[corev1.ServiceAccountNameKey] == "" {
			f.Child("metadata").Child("annotations").Key(corev1.ServiceAccountNameKey).Required("")
		}
	case corev1.SecretTypeDockercfg:
		validateJSON(data, secret.Data, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		validateJSON(data, secret.Data, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth: // one of the two keys is required; its value may be empty
		_, user := secret.Data[corev1.BasicAuthUsernameKey]
		_, password := secret.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			data.Key(corev1.BasicAuthUsernameKey).Required("")
			data.Key(corev1.BasicAuthPasswordKey).Required("")
		}
	case corev1.SecretTypeSSHAuth:
		if len(secret.Data[corev1.SSHAuthPrivateKey]) == 0 {
			data.Key(corev1.SSHAuthPrivateKey).Required("")
		}
	case corev1.SecretTypeTLS:
		for _, key := range [...]string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if _, ok := secret.Data[key]; !ok {
				data.Key(key).Required("")
			}
		}
	}
}

// validateJSON requires that the value of key is a JSON object. The error does not reveal the value.
func validateJSON(f validation.Field, data map[string][]byte, key string) {
	value, ok := data[key]
	if !ok {
		f.Key(key).Required("")
		return
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		f.Key(key).Invalid("<secret contents redacted>", err.Error())
	}
}
