package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func (c *container) validateEnv(f validation.Field) {
	for i := range c.Env {
		env, at := &c.Env[i], f.Index(i)
		if env.Name == "" {
			at.Child("name").Required("")
		} else {
			at.Child("name").EnvName(env.Name)
		}
		if env.ValueFrom != nil {
			c.validateEnvSource(at.Child("valueFrom"), env)
		}
	}
}

func (c *container) validateEnvSource(f validation.Field, env *corev1.EnvVar) {
	from, n := env.ValueFrom, 0
	if ref := from.FieldRef; ref != nil {
		n++
		validateFieldRef(f.Child("fieldRef"), ref, isEnvField, envFields)
	}
	if ref := from.ResourceFieldRef; ref != nil {
		n++
		validateResourceRef(f.Child("resourceFieldRef"), ref, false)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		n++
		validateKeyRef(f.Child("configMapKeyRef"), ref.Name, ref.Key)
	}
	if ref := from.SecretKeyRef; ref != nil {
		n++
		validateKeyRef(f.Child("secretKeyRef"), ref.Name, ref.Key)
	}
	if ref := from.FileKeyRef; ref != nil {
		n++
		c.validateFileRef(f.Child("fileKeyRef"), ref)
	}
	switch {
	case n == 0:
		f.Invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case env.Value != "":
		f.Invalid("", "may not be specified when `value` is not empty")
	case n > 1:
		f.Invalid("", "may not have more than one field specified at a time")
	}
}

func validateKeyRef(f validation.Field, name, key string) {
	f.Child("name").DNSSubdomain(name)
	validateConfigKey(f.Child("key"), key)
}

// validateConfigKey validates a key of a ConfigMap or Secret.
func validateConfigKey(f validation.Field, key string) {
	if key == "" {
		f.Required("")
		return
	}
	f.ConfigMapKey(key)
}

// validateFileRef validates an environment variable whose value is read from a file. The file must be in an
// emptyDir volume, where an init container writes it.
func (c *container) validateFileRef(f validation.Field, ref *corev1.FileKeySelector) {
	if ref.VolumeName == "" {
		f.Child("volumeName").Required("")
	} else if volume := c.pod.volumes.find(ref.VolumeName); volume == nil {
		f.Child("volumeName").NotFound(ref.VolumeName)
	} else if volume.EmptyDir == nil {
		f.Child("volumeName").Invalid(ref.VolumeName, "referenced volume must be of type emptyDir")
	}
	if ref.Path == "" {
		f.Child("path").Required("")
	} else {
		validateDescending(f.Child("path"), ref.Path)
	}
	if ref.Key == "" {
		f.Child("key").Required("")
	} else {
		f.Child("key").EnvName(ref.Key)
	}
}

// validateEnvFrom validates the sources of environment variables. As in kube-apiserver, an error about the
// number of sources is reported for the list, not for the element.
func (c *container) validateEnvFrom(f validation.Field) {
	for i := range c.EnvFrom {
		from, at, n := &c.EnvFrom[i], f.Index(i), 0
		if from.Prefix != "" {
			at.Child("prefix").EnvName(from.Prefix)
		}
		if ref := from.ConfigMapRef; ref != nil {
			n++
			validateRefName(at.Child("configMapRef").Child("name"), ref.Name)
		}
		if ref := from.SecretRef; ref != nil {
			n++
			validateRefName(at.Child("secretRef").Child("name"), ref.Name)
		}
		if n == 0 {
			f.Invalid("", "must specify one of: `configMapRef` or `secretRef`")
		} else if n > 1 {
			f.Invalid("", "may not have more than one field specified at a time")
		}
	}
}

func validateRefName(f validation.Field, name string) {
	if name == "" {
		f.Required("")
		return
	}
	f.DNSSubdomain(name)
}

// validateFieldRef validates a reference to a field of the pod. isField reports whether a field can be
// referenced. fields lists these fields for error messages.
func validateFieldRef(f validation.Field, ref *corev1.ObjectFieldSelector, isField func(string) bool, fields func() []string) {
	path := f.Child("fieldPath")
	switch name, key, subscripted := cutSubscript(ref.FieldPath); {
	case ref.APIVersion == "":
		f.Child("apiVersion").Required("")
	case ref.FieldPath == "":
		path.Required("")
	case ref.APIVersion != "v1":
		path.Invalid(ref.FieldPath, "error converting fieldPath: unsupported pod version: "+ref.APIVersion)
	case subscripted && name == "metadata.labels":
		path.QualifiedName(key)
	case subscripted && name == "metadata.annotations":
		path.QualifiedName(strings.ToLower(key))
	case subscripted || !isPodField(ref.FieldPath):
		path.Invalid(ref.FieldPath, "error converting fieldPath: field label not supported: "+ref.FieldPath)
	case !isField(ref.FieldPath):
		path.Add(field.NotSupported(path.Path(), ref.FieldPath, fields()))
	}
}

// cutSubscript splits a path that ends with a subscript, such as metadata.labels['key'].
func cutSubscript(path string) (name, key string, ok bool) {
	name, rest, found := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(rest, "']")
	if !found || !closed || name == "" {
		return path, "", false
	}
	return name, key, true
}

// isPodField reports whether kube-apiserver accepts path as the path of a pod field. Not all of these fields can
// be referenced in every place.
func isPodField(path string) bool {
	switch path {
	case "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host":
		return true
	}
	return isEnvField(path)
}

func isEnvField(path string) bool {
	switch path {
	case "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs":
		return true
	}
	return false
}

func envFields() []string {
	return []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
}

func fileFields() []string {
	return []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"}
}

func isFileField(path string) bool {
	switch path {
	case "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid":
		return true
	}
	return false
}

// validateResourceRef validates a reference to a resource of a container. In a volume, the reference must name
// the container, because a volume does not belong to a container.
func validateResourceRef(f validation.Field, ref *corev1.ResourceFieldSelector, inVolume bool) {
	if inVolume && ref.ContainerName == "" {
		f.Child("containerName").Required("")
		return
	}
	if ref.Resource == "" {
		f.Child("resource").Required("")
		return
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	divisors, about := divisorsOf(name)
	if divisors == "" || kind != "limits" && kind != "requests" {
		validation.OneOf(f.Child("resource"), ref.Resource, "limits.cpu", "limits.ephemeral-storage", "limits.memory",
			"requests.cpu", "requests.ephemeral-storage", "requests.memory")
		return
	}
	if ref.Divisor.IsZero() {
		return
	}
	if !contains(divisors, ref.Divisor.String()) {
		listed := strings.Replace(divisors, ", ", " and ", 1)
		if name != "cpu" {
			listed = divisors
		}
		f.Child("divisor").Invalid(ref.Resource, "only divisor's values "+listed+" are supported with the "+about+" resource")
	}
}

// contains reports whether list contains item. The elements of list are separated by ", ".
func contains(list, item string) bool {
	for one := range strings.SplitSeq(list, ", ") {
		if one == item {
			return true
		}
	}
	return false
}

// divisorsOf returns the valid divisors of a resource and a description of the resource. Both are "" if the
// resource cannot be referenced.
func divisorsOf(name string) (divisors, about string) {
	const bytes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"
	switch {
	case name == "cpu":
		return "1m, 1", name
	case name == "memory":
		return bytes, name
	case name == "ephemeral-storage":
		return bytes, "local ephemeral storage"
	case strings.HasPrefix(name, corev1.ResourceHugePagesPrefix):
		return bytes, "hugepages"
	}
	return "", ""
}

// validateDescending requires that a path is relative and does not contain "..".
func validateDescending(f validation.Field, path string) {
	if strings.HasPrefix(path, "/") {
		f.Invalid(path, "must be a relative path")
	}
	validateNoBacksteps(f, path)
}

// validateNoBacksteps requires that a path does not contain "..".
func validateNoBacksteps(f validation.Field, path string) {
	if hasBacksteps(path) {
		f.Invalid(path, "must not contain '..'")
	}
}

func hasBacksteps(path string) bool {
	if !strings.Contains(path, "..") {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
