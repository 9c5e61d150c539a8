package lifecycle

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/declarative/meta"
)

// ValidateCustom_EvictionRequestSpec_Requester is called by a marker of this name. It rejects
// requesters in the domains of Kubernetes, because there are no such requesters yet.
func ValidateCustom_EvictionRequestSpec_Requester(_ context.Context, _ operation.Operation, path *field.Path, requester, _ *string) field.ErrorList {
	if requester == nil {
		return nil
	}
	return meta.ReservedDomain(path, *requester)
}
