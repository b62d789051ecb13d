package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/certificates"
	certificatesvalidation "k8s.io/kubernetes/pkg/apis/certificates/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	volumevalidation "k8s.io/kubernetes/pkg/volume/validation"
)

// refusal is an object that an API server would not have stored, and why.
type refusal struct {
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Problems  []fieldProblem `json:"problems"`
}

type fieldProblem struct {
	Type  string `json:"type"` // such as FieldValueInvalid
	Field string `json:"field"`
	Says  string `json:"says"`
}

// refusalOf asks the API server's own validation of new objects. Kinds that say nothing about volumes always pass.
func refusalOf(object runtime.Object) (*refusal, error) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(object,
		schema.GroupVersion{Group: kinds[0].Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	found := validate(internal)
	if len(found) == 0 {
		return nil, nil
	}
	meta := object.(metav1.Object)
	refused := &refusal{Kind: kinds[0].Kind, Namespace: meta.GetNamespace(), Name: meta.GetName()}
	for _, each := range found {
		problem := fieldProblem{Type: string(each.Type), Field: each.Field, Says: each.ErrorBody()}
		refused.Problems = append(refused.Problems, problem)
	}
	return refused, nil
}

func validate(object runtime.Object) field.ErrorList {
	switch o := object.(type) {
	case *core.Pod:
		options := podutil.GetValidationOptionsFromPodSpecAndMeta(&o.Spec, nil, &o.ObjectMeta, nil)
		options.ResourceIsPod = true
		return validation.ValidatePodCreate(o, options)
	case *core.ConfigMap:
		return validation.ValidateConfigMap(o)
	case *core.Secret:
		return validation.ValidateSecret(o)
	case *core.PersistentVolume:
		found := validation.ValidatePersistentVolume(o, validation.ValidationOptionsForPersistentVolume(o, nil))
		return append(found, volumevalidation.ValidatePersistentVolume(o)...)
	case *core.PersistentVolumeClaim:
		return validation.ValidatePersistentVolumeClaim(o, validation.ValidationOptionsForPersistentVolumeClaim(o, nil))
	case *certificates.ClusterTrustBundle:
		return certificatesvalidation.ValidateClusterTrustBundle(o,
			certificatesvalidation.ValidateClusterTrustBundleOptions{})
	case *storage.CSIDriver:
		return storagevalidation.ValidateCSIDriver(o)
	}
	return nil
}
