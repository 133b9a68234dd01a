"""
Mistakes in configurations that are found while a model is loaded, and what the client is told.

Each is the model's name, its `config.pbtxt`, and `<Code>: <text>`.
"""

TOLD_BY_TRITON = (
    (
        "io_noname",
        'backend:"python" input{data_type:TYPE_INT32}',
        "Invalid argument: model input must specify 'name' for io_noname",
    ),
    (
        "io_notype",
        'backend:"python" input{name:"I"}',
        "Invalid argument: model input 'I' must specify 'data_type' for io_notype",
    ),
    (
        "io_nodims",
        'backend:"python" input{name:"I" data_type:TYPE_INT32}',
        "Invalid argument: model input 'I' must specify 'dims' for io_nodims",
    ),
    (
        "io_dim0",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[0] reshape{}}',
        "Invalid argument: model input 'I' cannot have empty reshape for non-batching model as scalar tensors are not supported for io_dim0",
    ),
    (
        "io_dim2",
        'backend:"python" output{name:"O" data_type:TYPE_INT32 dims:[-2]}',
        "Invalid argument: model output 'O' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for io_dim2",
    ),
    (
        "io_rs0",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[1] reshape{shape:0}}',
        "Invalid argument: model input 'I' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension for io_rs0",
    ),
    (
        "io_rsempty2",
        'backend:"python" max_batch_size:1 input{name:"I" data_type:TYPE_INT32 dims:[2] reshape{}}',
        "Invalid argument: model input 'I' has different size for dims and reshape for io_rsempty2",
    ),
    (
        "io_rsdiff",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4] reshape{shape:[3]}}',
        "Invalid argument: model input 'I' has different size for dims and reshape for io_rsdiff",
    ),
    (
        "io_rsvar",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[-1,2] reshape{shape:[2,-1]}}',
        "Invalid argument: model input 'I' has different size for dims and reshape for io_rsvar",
    ),
    (
        "io_rsvarn",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[-1,2] reshape{shape:[-1,-1]}}',
        "Invalid argument: model input 'I' has different number of variable-size dimensions for dims and reshape for io_rsvarn",
    ),
    (
        "io_rsempty_var",
        'backend:"python" max_batch_size:1 input{name:"I" data_type:TYPE_INT32 dims:[-1] reshape{}}',
        "Invalid argument: model input 'I' has different size for dims and reshape for io_rsempty_var",
    ),
    (
        "io_rs_var_vs_fixed",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4] reshape{shape:[-1]}}',
        "Invalid argument: model input 'I' has different size for dims and reshape for io_rs_var_vs_fixed",
    ),
    (
        "io_format",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4] format:FORMAT_NHWC is_shape_tensor:true}',
        "Invalid argument: model input NHWC/NCHW require 3 dims for io_format",
    ),
    (
        "io_shape",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4] is_shape_tensor:true is_non_linear_format_io:true}',
        "Invalid argument: shape tensors are only supported for TensorRT platform for io_shape",
    ),
    (
        "io_nl",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4] is_non_linear_format_io:true}',
        "Invalid argument: Non-linear IO format is only supported for the TensorRT platform for io_nl",
    ),
    (
        "io_onl",
        'backend:"python" output{name:"I" data_type:TYPE_INT32 dims:[4] is_non_linear_format_io:true is_shape_tensor:true}',
        "Invalid argument: shape tensors are only supported for TensorRT platform for io_onl",
    ),
    (
        "bi_type",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} batch_input{kind:BATCH_ELEMENT_COUNT target_name:"B" data_type:TYPE_INT64}',
        "Invalid argument: batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for bi_type",
    ),
    (
        "bi_src",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} batch_input{kind:BATCH_ELEMENT_COUNT target_name:"B" data_type:TYPE_INT64 source_input:"X"}',
        "Invalid argument: batch input data type must be TYPE_INT32 or TYPE_FP32 for bi_src",
    ),
    (
        "bi_src2",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} batch_input{kind:BATCH_ELEMENT_COUNT target_name:"B" data_type:TYPE_INT32 source_input:"X"}',
        "Invalid argument: unknown source input name 'X' for bi_src2",
    ),
    (
        "bo_src",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} output{name:"O" data_type:TYPE_INT32 dims:[4]} batch_output{target_name:"Z" source_input:["I","I"]}',
        "Invalid argument: batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 2 for bo_src",
    ),
    (
        "bo_src2",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} output{name:"O" data_type:TYPE_INT32 dims:[4]} batch_output{target_name:"Z" source_input:["Y"]}',
        "Invalid argument: unknown source input name 'Y' for bo_src2",
    ),
    (
        "bo_tgt",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} output{name:"O" data_type:TYPE_INT32 dims:[4]} batch_output{target_name:"Z" source_input:["I"]}',
        "Invalid argument: unknown target output name 'Z' for bo_tgt",
    ),
    (
        "bo_dup",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[4]} output{name:"O" data_type:TYPE_INT32 dims:[4]} batch_output{target_name:["O","O"] source_input:["I"]}',
        "Invalid argument: target output name 'O' can only be specified once for bo_dup",
    ),
    (
        "ig_gpu",
        'backend:"python" instance_group{kind:KIND_GPU}',
        "Invalid argument: instance group ig_gpu_0 of model ig_gpu has kind KIND_GPU but no GPUs are available",
    ),
    (
        "ig_gpus",
        'backend:"python" instance_group{kind:KIND_GPU gpus:[0,3]}',
        "Invalid argument: instance group ig_gpus_0 of model ig_gpus specifies invalid or unsupported gpu id 0. GPUs with at least the minimum required CUDA compute compatibility of 6.000000 are: ",
    ),
    (
        "ig_cpug",
        'backend:"python" instance_group{kind:KIND_CPU gpus:[0]}',
        "Invalid argument: instance group ig_cpug_0 of model ig_cpug has kind KIND_CPU but specifies one or more GPUs",
    ),
    (
        "ig_modg",
        'backend:"python" instance_group{kind:KIND_MODEL gpus:[0]}',
        "Invalid argument: instance group ig_modg_0 of model ig_modg has kind KIND_MODEL but specifies one or more GPUs",
    ),
    (
        "ig_autog",
        'backend:"python" instance_group{name:"n" gpus:[0]}',
        "Invalid argument: instance group n of model ig_autog has kind KIND_CPU but specifies one or more GPUs",
    ),
    (
        "ig_prof",
        'backend:"python" instance_group{profile:"a"}',
        "Invalid argument: instance group ig_prof_0 of model ig_prof and platform specifies profile field which is only supported for TensorRT models",
    ),
    (
        "ig_prof2",
        'backend:"python" platform:"xx" instance_group{profile:"a" gpus:0}',
        "Invalid argument: instance group ig_prof2_0 of model ig_prof2 has kind KIND_CPU but specifies one or more GPUs",
    ),
    (
        "st_two",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{} initial_state{}}}',
        "Invalid argument: initial_state field for state input 's' must contain exactly one or zero element. Found '2' elements.",
    ),
    (
        "st_empty",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{}}}',
        "Invalid argument: The data type used for 'initial_state' field of state 's' does not match the state data type.",
    ),
    (
        "st_type",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_FP32}}}',
        "Invalid argument: The data type used for 'initial_state' field of state 's' does not match the state data type.",
    ),
    (
        "st_name",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32}}}',
        "Invalid argument: Field 'name' must be set when using initial_state for state input 's'.",
    ),
    (
        "st_rank",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32 name:"n"}}}',
        "Invalid argument: Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input 's'. 0 != 1",
    ),
    (
        "st_rank2",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32 name:"n" dims:[-1,2]}}}',
        "Invalid argument: Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input 's'. 2 != 1",
    ),
    (
        "st_neg",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:-1  initial_state{data_type:TYPE_INT32 name:"n" dims:[-1] zero_data:true}}}',
        "Invalid argument: 'initial_state' field for state input name 's' contains variable dimensions.",
    ),
    (
        "st_dim",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32 name:"n" dims:[2] zero_data:true}}}',
        "Invalid argument: 'initial_state' dim for input name 's' doesn't match 'state' dim description. 2 != 1",
    ),
    (
        "st_nodata",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" output_name:"t" data_type:TYPE_INT32 dims:1  initial_state{data_type:TYPE_INT32 name:"n" dims:[1]}}}',
        "Invalid argument: initial_state setting expects state's' to have state_data set",
    ),
)
"""As a Triton 2.51 answered them."""

TOLD_BY_NEWER_TRITON = (
    (
        "state_twice",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s"} state{input_name:"s"}}',
        "Invalid argument: State input name 's' specified more than once.",
    ),
    (
        "state_growing",
        'backend:"python" max_batch_size:4 sequence_batching{state{input_name:"s" data_type:TYPE_INT32 dims:1 use_growable_memory:true}}',
        "Invalid argument: In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state input name 's'.",
    ),
    (
        "non_linear_rank",
        'platform:"tensorrt_plan" input{name:"I" data_type:TYPE_INT32 dims:[4] is_non_linear_format_io:true}',
        "Invalid argument: Non-linear IO format input requires 3 dims for non_linear_rank",
    ),
    (
        "non_linear_output_rank",
        'platform:"tensorrt_plan" output{name:"O" data_type:TYPE_INT32 dims:[4] is_non_linear_format_io:true}',
        "Invalid argument: Non-linear IO format output requires 3 dims for non_linear_output_rank",
    ),
    (
        "profile_platform",
        'backend:"mine" platform:"xx" instance_group{profile:"0"}',
        "Invalid argument: instance group profile_platform_0 of model profile_platform and platform xxspecifies profile field which is only supported for TensorRT models",
    ),
    (
        "profile_word",
        'platform:"tensorrt_plan" instance_group{profile:"fast"}',
        "Invalid argument: instance group profile_word_0 of model profile_word and platform tensorrt_plan specifies invalid profile fast. The field should contain the string representation of a non-negative integer.",
    ),
    (
        "too_large",
        'backend:"python" input{name:"I" data_type:TYPE_INT32 dims:[9223372036854775807,2]}',
        "Invalid argument: model input 'I' has more elements than 9223372036854775807 for too_large",
    ),
    (
        "batch_input_kind",
        'backend:"python" batch_input{kind:9}',
        "Invalid argument: unknown batch input kind '9' for batch_input_kind",
    ),
    (
        "batch_output_kind",
        'backend:"python" batch_output{kind:9}',
        "Invalid argument: unknown batch output kind '9' for batch_output_kind",
    ),
)
"""Of rules that came after 2.51, and our own."""
