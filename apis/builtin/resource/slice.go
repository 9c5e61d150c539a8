package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// prepareSlice drops lists as values of attributes: they are for a feature
// that is off (DRAListTypeAttributes).
func prepareSlice(_ *builtin.Operation, slice *resourcev1.ResourceSlice) {
	eachList(slice, func(device *resourcev1.Device, name resourcev1.QualifiedName) {
		attribute := device.Attributes[name]
		attribute.BoolValues, attribute.IntValues, attribute.StringValues, attribute.VersionValues = nil, nil, nil, nil
		device.Attributes[name] = attribute
	})
}

// prepareSliceUpdate lets lists be in slices that had some.
func prepareSliceUpdate(op *builtin.Operation, slice, old *resourcev1.ResourceSlice) {
	had := false
	eachList(old, func(*resourcev1.Device, resourcev1.QualifiedName) { had = true })
	if !had {
		prepareSlice(op, slice)
	}
}

// eachList calls f with every attribute that has lists.
func eachList(slice *resourcev1.ResourceSlice, f func(*resourcev1.Device, resourcev1.QualifiedName)) {
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		for name, a := range device.Attributes {
			if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
				f(device, name)
			}
		}
	}
}
