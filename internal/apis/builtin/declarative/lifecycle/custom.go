package lifecycle

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/declarative/meta"
)

// ValidateCustom_EvictionRequestSpec_Requester is called by a +k8s:customValidation marker. It rejects
// requesters in domains that are reserved for Kubernetes, because Kubernetes has no requesters yet.
func ValidateCustom_EvictionRequestSpec_Requester(_ context.Context, _ operation.Operation, path *field.Path, requester, _ *string) field.ErrorList {
	if requester == nil {
		return nil
	}
	return meta.ReservedDomain(path, *requester)
}
