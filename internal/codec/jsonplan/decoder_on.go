//go:build !nojsonplan

package jsonplan

// decoderEnabled reports whether Decode, DecodeWithout and DecodeDocument decode. The build tag
// nojsonplan disables them: callers then decode everything with sigs.k8s.io/json.
const decoderEnabled = true
