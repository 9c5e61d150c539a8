// Package declarative contains the validation rules that the types of k8s.io/api declare with +k8s: markers.
// Kubernetes' validation-gen generates one package for each package of types (KEP-5073). All other rules are
// handwritten in apis/builtin/<group>. The handwritten rules call the generated rules with
// validation.ValidateDeclared. Run `go generate` after changing the version of k8s.io/api in go.mod.
package declarative

//go:generate go tool -modfile=../../../tools/gen/validation/go.mod validation-gen --go-header-file=/dev/null --output-file=zz_generated.validations.go --readonly-pkg=time,k8s.io/apimachinery/pkg/api/resource,k8s.io/apimachinery/pkg/runtime,k8s.io/apimachinery/pkg/runtime/schema,k8s.io/apimachinery/pkg/types,k8s.io/apimachinery/pkg/util/intstr ./core ./lifecycle ./meta ./resource ./resource/v1alpha3 ./scheduling/v1alpha3 ./scheduling/v1beta1
