package podspec

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/rest/names"
)

// This file validates volumes whose files come from API objects: secrets, config maps, the pod itself, and
// projections of several sources.

func validateMode(f validation.Field, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		f.Invalid(*mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

func validateSecretVolume(f validation.Field, volume *corev1.Volume) {
	if volume.Secret.SecretName == "" {
		f.Child("secretName").Required("")
	}
	validateMode(f.Child("defaultMode"), volume.Secret.DefaultMode)
	validateID(f.Child("defaultUser"), volume.Secret.DefaultUser)
	validateItems(f.Child("items"), volume.Secret.Items)
}

func validateConfigMapVolume(f validation.Field, volume *corev1.Volume) {
	if volume.ConfigMap.Name == "" {
		f.Child("name").Required("")
	}
	validateMode(f.Child("defaultMode"), volume.ConfigMap.DefaultMode)
	validateID(f.Child("defaultUser"), volume.ConfigMap.DefaultUser)
	validateItems(f.Child("items"), volume.ConfigMap.Items)
}

func validateItems(f validation.Field, items []corev1.KeyToPath) {
	for i := range items {
		at := f.Index(i)
		if items[i].Key == "" {
			at.Child("key").Required("")
		}
		if items[i].Path == "" {
			at.Child("path").Required("")
		} else {
			validateFilePath(at.Child("path"), items[i].Path)
		}
		validateMode(at.Child("mode"), items[i].Mode)
		validateID(at.Child("user"), items[i].User)
	}
}

// validateFilePath validates the path of a file. Names that start with two dots are reserved for the kubelet,
// which uses them to update files atomically.
func validateFilePath(f validation.Field, path string) {
	validateDescending(f, path)
	if strings.HasPrefix(path, "..") && !strings.HasPrefix(path, "../") {
		f.Invalid(path, "must not start with '..'")
	}
}

func validateDownwardVolume(f validation.Field, volume *corev1.Volume) {
	validateMode(f.Child("defaultMode"), volume.DownwardAPI.DefaultMode)
	validateID(f.Child("defaultUser"), volume.DownwardAPI.DefaultUser)
	for i := range volume.DownwardAPI.Items {
		validateDownwardFile(f, &volume.DownwardAPI.Items[i])
	}
}

// validateDownwardFile validates a file that contains a field of the pod. As in kube-apiserver, errors are
// reported for the volume instead of the item.
func validateDownwardFile(f validation.Field, file *corev1.DownwardAPIVolumeFile) {
	if file.Path == "" {
		f.Child("path").Required("")
	} else {
		validateFilePath(f.Child("path"), file.Path)
	}
	switch {
	case file.FieldRef != nil:
		validateFieldRef(f.Child("fieldRef"), file.FieldRef, isFileField, fileFields)
		if file.ResourceFieldRef != nil {
			f.Invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case file.ResourceFieldRef != nil:
		validateResourceRef(f.Child("resourceFieldRef"), file.ResourceFieldRef, true)
	default:
		f.Required("one of fieldRef and resourceFieldRef is required")
	}
	validateMode(f.Child("mode"), file.Mode)
	validateID(f.Child("user"), file.User)
}

// projection is a projected volume that is being validated. paths contains the paths of the files that have
// already been validated.
type projection struct {
	validation.Field
	paths validation.Duplicates[string]
}

func validateProjected(f validation.Field, volume *corev1.Volume) {
	validateMode(f.Child("defaultMode"), volume.Projected.DefaultMode)
	validateID(f.Child("defaultUser"), volume.Projected.DefaultUser)
	p := projection{Field: f}
	for i := range volume.Projected.Sources {
		p.validateSource(f.Child("sources").Index(i), &volume.Projected.Sources[i])
	}
}

// path records the path of a file. If the path is a duplicate, it adds an error that quotes of, the source of
// the file.
func (p *projection) path(path, of string) {
	if path != "" && p.paths.IsDuplicate(path) {
		p.Invalid(of, "conflicting duplicate paths")
	}
}

func (p *projection) validateSource(f validation.Field, source *corev1.VolumeProjection) {
	n := 0
	if s := source.Secret; s != nil {
		n++
		p.validateKeys(f.Child("secret"), s.Name, s.Items)
	}
	if s := source.ConfigMap; s != nil {
		n++
		p.validateKeys(f.Child("configMap"), s.Name, s.Items)
	}
	if s := source.DownwardAPI; s != nil {
		n++
		for i := range s.Items {
			validateDownwardFile(f.Child("downwardAPI"), &s.Items[i])
			p.path(s.Items[i].Path, s.Items[i].Path)
		}
	}
	if s := source.ServiceAccountToken; s != nil {
		n++
		p.validateToken(f.Child("serviceAccountToken"), s)
	}
	if s := source.ClusterTrustBundle; s != nil {
		n++
		p.validateTrustBundle(f.Child("clusterTrustBundle"), s)
	}
	if s := source.PodCertificate; s != nil {
		n++
		p.validateCertificate(f.Child("podCertificate"), s)
	}
	if n > 1 {
		f.Forbidden("may not specify more than 1 volume type per source")
	}
}

func (p *projection) validateKeys(f validation.Field, name string, items []corev1.KeyToPath) {
	if name == "" {
		f.Child("name").Required("")
	}
	validateItems(f.Child("items"), items)
	for i := range items {
		p.path(items[i].Path, name)
	}
}

// Limits for the lifetimes of tokens and certificates, in seconds.
const (
	minTokenLifetime       = 10 * 60
	maxTokenLifetime       = 1 << 32
	minCertificateLifetime = 3600
	maxCertificateLifetime = 91 * 24 * 3600
)

// validateToken validates a service account token, except its path, because the rules for the path depend on
// the old object.
func (p *projection) validateToken(f validation.Field, s *corev1.ServiceAccountTokenProjection) {
	if s.ExpirationSeconds != nil {
		switch at := f.Child("expirationSeconds"); {
		case *s.ExpirationSeconds < minTokenLifetime:
			at.Invalid(*s.ExpirationSeconds, "may not specify a duration less than 10 minutes")
		case *s.ExpirationSeconds > maxTokenLifetime:
			at.Invalid(*s.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds")
		}
	}
	validateID(f.Child("user"), s.User)
	if s.Path == "" {
		p.Child("path").Required("")
	}
}

func (p *projection) validateTrustBundle(f validation.Field, s *corev1.ClusterTrustBundleProjection) {
	validateID(f.Child("user"), s.User)
	switch {
	case s.Name != nil && s.SignerName != nil:
		f.Invalid(s, "only one of name and signerName may be used")
	case s.Name != nil:
		validateBundleName(f.Child("name"), *s.Name)
		if s.LabelSelector != nil {
			f.Child("labelSelector").Invalid(s.LabelSelector, "labelSelector must be unset if name is specified")
		}
	case s.SignerName != nil:
		if *s.SignerName == "" {
			f.Child("signerName").Required("must be a valid signer name")
		} else {
			f.Child("signerName").SignerName(*s.SignerName)
		}
		f.Child("labelSelector").LabelSelector(s.LabelSelector)
	default:
		f.Required("either name or signerName must be specified")
	}
	if s.Path == "" {
		f.Child("path").Required("")
		return
	}
	validateFilePath(f.Child("path"), s.Path)
	p.path(s.Path, s.Path)
}

// validateBundleName validates the name of a trust bundle. The part before the last colon is a signer name in
// which the slash is replaced with a colon.
func validateBundleName(f validation.Field, name string) {
	if name == "" {
		f.Required("must be a valid object name")
	}
	rest := name[strings.LastIndexByte(name, ':')+1:]
	if names.IsSubdomain(rest) {
		return
	}
	for _, problem := range apivalidation.IsDNS1123Subdomain(rest) {
		f.Invalid(name, "not a valid clustertrustbundlename: "+problem)
	}
}

func (p *projection) validateCertificate(f validation.Field, s *corev1.PodCertificateProjection) {
	validateID(f.Child("user"), s.User)
	f.Child("signerName").SignerName(s.SignerName)
	f.Child("userAnnotations").Annotations(s.UserAnnotations)
	for key := range s.UserAnnotations {
		if !strings.Contains(key, "/") {
			f.Child("userAnnotations").Key(key).Invalid(key, "must be a domain-prefixed key (such as \"acme.io/foo\")")
		}
	}
	validation.OneOf(f.Child("keyType"), s.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if seconds := s.MaxExpirationSeconds; seconds != nil {
		f.Child("maxExpirationSeconds").Between(int64(*seconds), minCertificateLifetime, min(maxCertificateLifetime, math.MaxInt32))
	}
	if s.CredentialBundlePath == "" && s.KeyPath == "" && s.CertificateChainPath == "" {
		f.Required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
	for _, file := range [...]struct{ field, path string }{
		{"credentialBundlePath", s.CredentialBundlePath}, {"keyPath", s.KeyPath}, {"certificateChainPath", s.CertificateChainPath},
	} {
		if file.path != "" {
			validateFilePath(f.Child(file.field), file.path)
			p.path(file.path, file.path)
		}
	}
}
