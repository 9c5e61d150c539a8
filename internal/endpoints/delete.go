package endpoints

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// delete handles DELETE requests for an object.
func (c *call) delete(s rest.GracefulDeleter) error {
	t, err := c.negotiate(forObject)
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if isUnsafe(options) {
		return c.deleteCorrupt(t, options)
	}
	record, gone, err := c.operation.delete(c.r.Context(), s, options)
	if err != nil {
		return err
	}
	if gone && !c.resource.ReturnDeleted {
		return c.respondDeleted(t, record)
	}
	if !gone {
		c.warnPending(record, *options)
	}
	code := http.StatusOK
	if !gone && options.OrphanDependents != nil && !*options.OrphanDependents {
		code = http.StatusAccepted // as in kube-apiserver, for old clients that request cascading deletion with this field
	}
	return c.respondRecord(t, code, record)
}

// respondDeleted responds with a success Status that identifies the deleted object.
func (c *call) respondDeleted(t target, record *codec.Record) error {
	obj, err := record.Shared()
	if err != nil {
		return err
	}
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: record.Name().Name, Group: c.resource.GroupVersion.Group, Kind: c.resource.Name, UID: obj.GetUID(),
		},
	}
	return respondObject(c.w, c.r, t, http.StatusOK, status)
}

func (c *call) respondSuccess(t target, code int) error {
	return respondObject(c.w, c.r, t, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: int32(code),
	})
}

// deleteCollection handles DELETE requests for a collection.
func (c *call) deleteCollection(s rest.CollectionDeleter) error {
	t, err := c.negotiate(forList)
	if err != nil {
		return err
	}
	list, _, err := c.listOptions()
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	if isUnsafe(options) {
		at := field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential")
		return invalidOptions("DeleteOptions", field.ErrorList{field.Invalid(at, true, "is not allowed with DELETECOLLECTION, try again after removing the option")})
	}
	admissionRequest := c.request(c.r.Context(), admission.Delete, "", options, options.DryRun)
	deleted, err := s.DeleteCollection(c.r.Context(), c.namespace(), c.api.config.Admission.ValidateDeletionFunc(admissionRequest), *options, list)
	if err != nil {
		return err
	}
	c.warnPendingCollection(*options)
	return c.respondList(t, deleted, true)
}
