// Package features is a fixture.
package features

const (
	Direct featuregate.Feature = "Direct"
	Gone   featuregate.Feature = "Gone"
	Quick  featuregate.Feature = "Quick"
)

var needs = map[featuregate.Feature][]featuregate.Feature{
	Quick: {Direct},
}

var gates = map[featuregate.Feature]featuregate.VersionedSpecs{
	Direct: {
		{Version: version.MustParse("1.36"), Default: false, PreRelease: featuregate.Alpha},
	},
	Gone: {
		{Version: version.MustParse("1.30"), Default: true, LockToDefault: true, PreRelease: featuregate.GA},
	},
}
