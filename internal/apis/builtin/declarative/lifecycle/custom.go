package lifecycle

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/declarative/meta"
)

// ValidateCustom_EvictionRequestSpec_Requester is what a marker asks for by this
// name: no requester is of Kubernetes yet.
func ValidateCustom_EvictionRequestSpec_Requester(_ context.Context, _ operation.Operation, path *field.Path, requester, _ *string) field.ErrorList {
	if requester == nil {
		return nil
	}
	return meta.ReservedDomain(path, *requester)
}
