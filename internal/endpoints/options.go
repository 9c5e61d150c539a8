package endpoints

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// decodeQuery decodes the URL's query into options. As in kube-apiserver, parameters with invalid encoding
// are skipped. A parameter with an invalid value is an API error (400).
func decodeQuery[T any](rawQuery string, convert func(*url.Values, *T, conversion.Scope) error) (*T, error) {
	options := new(T)
	if rawQuery == "" {
		return options, nil
	}
	values, _ := url.ParseQuery(rawQuery)
	if err := convert(&values, options, nil); err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}

// optionsType returns the TypeMeta that options of a kind have when they are passed to admission plugins.
func optionsType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: "meta.k8s.io/v1"}
}

// invalidOptions returns the 422 for invalid options, or nil if there are no errors.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

func (c *call) getOptions() (metav1.GetOptions, error) {
	if strings.Contains(c.r.URL.RawQuery, "export") {
		if err := rejectExport(c.r.URL.Query()["export"]); err != nil {
			return metav1.GetOptions{}, err
		}
	}
	options, err := decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_GetOptions)
	return *options, err
}

// rejectExport rejects the removed export option, because a client that requests it must not receive the
// complete object.
func rejectExport(values []string) error {
	var export bool
	if err := runtime.Convert_Slice_string_To_bool(&values, &export, nil); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the export parameter cannot be parsed: %v", err))
	}
	if export {
		return apierrors.NewBadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	return nil
}

func (c *call) createOptions() (*metav1.CreateOptions, error) {
	options, err := decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_CreateOptions)
	if err != nil {
		return nil, err
	}
	options.TypeMeta = optionsType("CreateOptions")
	return options, invalidOptions("CreateOptions", validation.ValidateCreateOptions(options))
}

func (c *call) updateOptions() (*metav1.UpdateOptions, error) {
	options, err := decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_UpdateOptions)
	if err != nil {
		return nil, err
	}
	options.TypeMeta = optionsType("UpdateOptions")
	return options, invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(options))
}

func (c *call) patchOptions(patchType types.PatchType) (*metav1.PatchOptions, error) {
	options, err := decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_PatchOptions)
	if err != nil {
		return nil, err
	}
	return options, invalidOptions("PatchOptions", validation.ValidatePatchOptions(options, patchType))
}

// deleteOptions returns the options in the body or, if the body is empty, in the query.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := c.readBody()
	if err != nil {
		return nil, err
	}
	var options *metav1.DeleteOptions
	if len(body) > 0 {
		options, err = c.decodeDeleteOptions(body)
	} else {
		options, err = decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_DeleteOptions)
	}
	if err != nil {
		return nil, err
	}
	options.TypeMeta = optionsType("DeleteOptions")
	if !c.api.config.UnsafeDeletion {
		options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	}
	return options, invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(options))
}

// decodeDeleteOptions decodes the body of a delete request. DeleteOptions are identical in all versions of
// all groups.
func (c *call) decodeDeleteOptions(body []byte) (*metav1.DeleteOptions, error) {
	media, err := bodyMedia(c.r)
	if err != nil {
		return nil, err
	}
	options, err := codec.DecodeDeleteOptions(body, media)
	if err == nil {
		c.auditRequest(options, media, body)
	}
	return options, asBadRequest(err)
}

// listOptions returns the options of a list, watch or collection deletion.
func (c *call) listOptions() (rest.ListOptions, metav1.ListOptions, error) {
	decoded, err := decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_ListOptions)
	raw := *decoded
	if err != nil {
		return rest.ListOptions{}, raw, err
	}
	raw.Watch = raw.Watch || c.info.Verb == "watch"
	var parsed metainternal.ListOptions
	if err := metainternal.Convert_v1_ListOptions_To_internalversion_ListOptions(&raw, &parsed, nil); err != nil {
		return rest.ListOptions{}, raw, apierrors.NewBadRequest(err.Error())
	}
	metainternal.SetListOptionsDefaults(&parsed, true)
	errs := listvalidation.ValidateListOptions(&parsed, true)
	if raw.Watch && raw.Continue != "" && raw.ResourceVersionMatch == "" {
		errs = append(errs, field.Forbidden(field.NewPath("resourceVersionMatch"), "resourceVersionMatch is forbidden when continue is provided"))
	}
	if err := invalidOptions("ListOptions", errs); err != nil {
		return rest.ListOptions{}, raw, err
	}
	options := rest.ListOptions{
		Labels: parsed.LabelSelector, Fields: parsed.FieldSelector,
		ResourceVersion: parsed.ResourceVersion, ResourceVersionMatch: parsed.ResourceVersionMatch,
		Limit: parsed.Limit, Continue: parsed.Continue,
		AllowBookmarks: parsed.AllowWatchBookmarks, SendInitialEvents: parsed.SendInitialEvents,
	}
	if options.Fields, err = c.fieldSelector(parsed.FieldSelector); err != nil {
		return options, raw, err
	}
	return options, raw, nil
}

// fieldSelector converts a selector to the fields of the hub version. For the deprecated watch of a single
// object, it also requires the name in the path.
func (c *call) fieldSelector(selector fields.Selector) (fields.Selector, error) {
	if selector != nil && !selector.Empty() && c.resource.FieldLabel != nil {
		translated, err := selector.Transform(c.resource.FieldLabel)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		selector = translated
	}
	if !c.info.NameInPath {
		return selector, nil
	}
	byName := fields.OneTermEqualSelector("metadata.name", c.info.Name)
	if selector == nil || selector.Empty() {
		return byName, nil
	}
	if name, ok := selector.RequiresExactMatch("metadata.name"); ok && name != c.info.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("both a name and a field selector provided (%q, %q); please provide one or the other", c.info.Name, selector.String()))
	}
	return fields.AndSelectors(selector, byName), nil
}

// includeObject returns the policy for the content of the object field of table rows.
func (c *call) includeObject() (metav1.IncludeObjectPolicy, error) {
	if !strings.Contains(c.r.URL.RawQuery, "includeObject") {
		return metav1.IncludeMetadata, nil
	}
	options, err := decodeQuery(c.r.URL.RawQuery, metav1.Convert_url_Values_To_v1_TableOptions)
	if err != nil {
		return "", err
	}
	if errs := validation.ValidateTableOptions(options); len(errs) > 0 {
		return "", apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs.ToAggregate().Error())
	}
	if options.IncludeObject == "" {
		return metav1.IncludeMetadata, nil
	}
	return options.IncludeObject, nil
}

// fieldManager returns manager or, if manager is empty, the printable prefix of the client's user agent up
// to the maximum length. It also records the result in the context of the request.
func (c *call) fieldManager(manager string) string {
	if manager == "" {
		manager = c.userAgentPrefix()
	}
	request.SetFieldManager(c.r.Context(), manager)
	return manager
}

func (c *call) userAgentPrefix() string {
	prefix, _, _ := strings.Cut(c.r.UserAgent(), "/")
	var name []byte
	for _, r := range prefix {
		if !unicode.IsPrint(r) {
			continue
		}
		if len(name)+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		name = utf8.AppendRune(name, r)
	}
	return string(name)
}
