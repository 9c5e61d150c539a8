package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +k8s:prerelease-lifecycle-gen:introduced=1.9
// +k8s:prerelease-lifecycle-gen:deprecated=1.38

// Pump moves water.
type Pump struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the pump.
	Spec PumpSpec `json:"spec,omitempty"`
}

// PumpList is a list.
type PumpList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Pump `json:"items"`
}

// PumpSpec is the desired state.
type PumpSpec struct {
	// Speed in liters per second.
	// +optional
	// +default=1
	Speed *int64 `json:"speed,omitempty"`
	// Valves of the pump.
	// +listType=map
	// +listMapKey=mode
	Valves []Valve `json:"valves,omitempty"`
	// Direction of the water.
	// +featureGate=PumpDirection
	Direction *Direction `json:"direction,omitempty"`
}

// Valve opens and closes.
type Valve struct {
	// +k8s:maxItems=8
	Mode     Mode `json:"mode"`
	internal string
}

// Direction is the direction of the water.
type Direction struct {
	Up bool `json:"up"`
}

// +enum
type Mode string

const (
	Open   Mode = "Open"
	Closed Mode = "Closed"
	Half   Mode = "Half"
)
