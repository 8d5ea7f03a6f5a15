//! Serinette runs machine-learning models that were compiled once into a schedule blob.
