package core

import (
	"crypto/tls"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func secretFields(secret *corev1.Secret) fields.Set { return fields.Set{"type": string(secret.Type)} }

func secrets() builtin.Row[*corev1.Secret] {
	return builtin.Row[*corev1.Secret]{
		Names: builtin.Names{Plural: "secrets", Kind: "Secret"}, Namespaced: true,
		Strategy:       builtin.Strategy[*corev1.Secret]{Default: defaultSecret, Validate: validateSecret, Warnings: secretWarnings},
		FieldSelectors: builtin.FieldSelectors[*corev1.Secret]{Keys: []string{"type"}, Values: secretFields},
		Columns:        secretColumns(),
	}
}

// mergeStringData moves the entries of stringData, which is write-only, to data.
func mergeStringData(secret *corev1.Secret) {
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for key, text := range secret.StringData {
		secret.Data[key] = []byte(text)
	}
	secret.StringData = nil
}

// secretWarnings returns a warning for a TLS secret whose certificate and key cannot be used.
func secretWarnings(_ *builtin.Operation, secret, _ *corev1.Secret) []string {
	if secret.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func secretColumns() *builtin.Columns[*corev1.Secret] {
	doc := corev1.Secret{}.SwaggerDoc()
	return &builtin.Columns[*corev1.Secret]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Type", "string", doc["type"]),
			builtin.Column("Data", "string", doc["data"]),
			builtin.AgeColumn(),
		},
		Cells: func(secret *corev1.Secret, now time.Time) []any {
			return []any{secret.Name, string(secret.Type), int64(len(secret.Data)), builtin.Age(secret.CreationTimestamp, now)}
		},
	}
}
